"""What is told about traffic and time agrees with the arithmetic it comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator, Coefficients, breakdown, traffic
from autosync.report.explained import explained, terms_of
from autosync.runs.subject import Subject
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    ModelProfile,
    ModelSpec,
    Pace,
    ParameterServer,
    Strategy,
    VariableStrategy,
)
from tests import cases
from tests.layout.fitting.shapes import shaped

MODEL = cases.bert_like_model()


def subject(
    shard: AllReduce | ParameterServer | None,
    cluster: ClusterSpec,
    model: ModelSpec = MODEL,
    baseline: str = "parallax",
) -> Subject:
    """Every variable by `shard`, or a baseline."""
    if shard is None:
        return Subject(BASELINES[baseline](model, cluster), model, cluster, (), ())
    variables = tuple(VariableStrategy(each.name, (shard,)) for each in model.variables)
    return Subject(Strategy(tuple(map(str, cluster.replica_devices)), variables), model, cluster, (), ())


def section(lines: list[str], title: str) -> list[str]:
    start = lines.index(title) + 1
    end = lines.index("", start) if "" in lines[start:] else len(lines)
    return [line.strip() for line in lines[start:end]]


def test_where_links_change_a_step_is_predicted_for_each_phase() -> None:
    cluster = cases.star_cluster(4, gbit_per_s=0.2)
    given = subject(None, cases.changing(cluster, (60.0, 0.1), (120.0, 2.0)))
    first, *others = section(list(explained(given)), "How long a step takes")
    by_rates = [
        breakdown(MODEL, given.cluster.at(after), given.strategy, Coefficients()).step for after in (0, 60, 120)
    ]
    said = [f"{1e3 * step:.3g} ms" if step < 1 else f"{1e3 * step:.0f} ms" for step in by_rates]
    assert first.startswith(f"Predicted for phase 0 of 0 to 2, by the first rates: {said[0]} a step (closed form, ")
    assert others[:2] == [
        f"{said[1]}  in phase 1, from 60 s after the cluster is up",
        f"{said[2]}  in phase 2, from 120 s after the cluster is up",
    ]
    assert len(set(said)) == 3
    steady = section(list(explained(subject(None, cluster))), "How long a step takes")
    assert steady[0].startswith(f"Predicted: {said[0]} a step")


def test_every_link_that_carries_something_is_in_the_table_the_busiest_first() -> None:
    cluster = cases.uneven_cluster()
    given = subject(None, cluster)
    title, *rows = section(list(explained(given)), "What crosses in one step")
    assert title.split() == ["link", "bytes", "messages", "ms", "at"]
    found = traffic(MODEL, cluster, given.strategy)
    used = {
        f"within {link.source}" if link.source == link.target else f"{link.source} > {link.target}"
        for link, carried in zip(cluster.links, found.bytes, strict=True)
        if carried
    }
    assert {row.split("  ")[0] for row in rows} == used
    seconds = [float(row.split()[-4]) for row in rows]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] == pytest.approx(
        1e3 * breakdown(MODEL, cluster, given.strategy, Coefficients()).links.max(), rel=0.01
    )


def test_how_an_all_reduce_goes_is_said_beside_what_links_allow() -> None:
    def lines_of(cluster: ClusterSpec, algorithm: str) -> list[str]:
        return section(list(explained(subject(AllReduce(0, algorithm), cluster))), "How all-reduces go")

    bound, how, pieces, *trees = lines_of(shaped(2, 2, 2), "fitted")
    assert bound == "All-reduces: no links between nodes take less than 107 ms a MB, in any way of adding up."
    assert how.startswith("Fitted: 111 ms a MB, 1.04 x that, in 360 messages a bucket")
    assert pieces == "in 6 pieces, one a round behind another, of each:"
    assert "16.7 %  node0 <- node1, node2 (node3), node4 (node5); -> the same" in trees
    assert lines_of(shaped(6), "fitted")[1].startswith("Fitted, which here is halving-and-doubling: 66.7 ms a MB, 1.00")
    assert "20.0 %  node4 <- node0, node1, node2, node3; -> the same" in lines_of(shaped(5), "direct")
    assert lines_of(cases.racks(2, 2, 2), "fitted")[2].endswith("each by Rabenseifner, one a round behind another")


def test_servers_all_reduce_nothing() -> None:
    lines = list(explained(subject(ParameterServer("node0/cpu:0"), cases.star_cluster(4))))
    assert "How all-reduces go" not in lines


def test_one_replica_crosses_nothing() -> None:
    lines = list(explained(subject(AllReduce(0), cases.local_cluster(1), cases.mlp_model())))
    assert section(lines, "What crosses in one step") == ["Nothing: one process holds it all."]


FAST = Coefficients(1e-4, 1e-13, 1e-15, 1e-6, 1e-11, 1e-11, 0.5)
SLOW_LINKS, FAST_LINKS, ONE_MACHINE = cases.star_cluster(4, 0.2), cases.star_cluster(4, 40.0), cases.local_cluster(4)
RING, TREE = AllReduce(0), AllReduce(0, "tree")
PROCESSOR = "the processor of node0, with messages, copies and sums"


@pytest.mark.parametrize(
    ("what", "shard", "cluster", "coefficients"),
    [
        ("link node0 > switch", ParameterServer("node0/cpu:0"), SLOW_LINKS, FAST),
        ("the loopback of node0", RING, ONE_MACHINE, FAST),
        (
            "server node1/cpu:0, adding and updating",
            ParameterServer("node1/cpu:0"),
            FAST_LINKS,
            replace(FAST, core_seconds_per_reduced_byte=1e-7),
        ),
        (PROCESSOR, RING, ONE_MACHINE, replace(FAST, core_seconds_per_message=1.0)),
        ("computing gradients on node0", RING, FAST_LINKS, replace(FAST, core_seconds_per_flop=1e-8)),
        ("computing gradients on a GPU", RING, cases.gpu_cluster(), replace(FAST, gpu_seconds_per_flop=1e-8)),
        ("the slowest bucket, stage by stage", TREE, SLOW_LINKS, FAST),
        ("starting a step", RING, FAST_LINKS, replace(FAST, step_overhead_seconds=9.0)),
    ],
)
def test_the_bottleneck_is_what_a_step_waits_for_longest(
    what: str, shard: AllReduce | ParameterServer, cluster: ClusterSpec, coefficients: Coefficients
) -> None:
    model = cases.bert_like_model(sparse=False)
    given = subject(shard, cluster, model)
    terms = terms_of(given, breakdown(model, cluster, given.strategy, coefficients))
    assert terms[0].what == what
    assert [each.seconds for each in terms] == sorted((each.seconds for each in terms), reverse=True)
    assert all(each.seconds > 0 for each in terms)


def test_the_predicted_step_is_the_closed_forms() -> None:
    cluster = cases.star_cluster(4)
    given = subject(None, cluster)
    (log_seconds,) = AnalyticSimulator().predict(MODEL, cluster, [given.strategy])
    parts = breakdown(MODEL, cluster, given.strategy, Coefficients())
    assert parts.step == pytest.approx(2.718281828459045**log_seconds)
    lines = section(list(explained(given)), "How long a step takes")
    assert lines[0] == (
        f"Predicted: {1e3 * parts.step:.3g} ms a step (closed form, not fitted to this cluster: "
        f"its processors' speed is assumed)."
    )


def test_what_is_a_baseline_is_said_to_be_it() -> None:
    lines = list(explained(subject(None, cases.star_cluster(4))))
    assert section(lines, "The nearest baseline") == ["It is parallax: no decision differs."]


def test_the_nearest_baseline_is_compared_in_decisions_and_in_time() -> None:
    lines = section(
        list(explained(subject(AllReduce(0, "tree"), cases.star_cluster(4), cases.mlp_model()))),
        "The nearest baseline",
    )
    assert lines[0].startswith("all_reduce_25mb, which decides 6 of 6 variables otherwise; predicted to be ")
    assert lines[1:] == [
        "dense_1/kernel, dense_0/kernel, dense_2/kernel and 3 more (340 kB): binomial-tree all-reduce; "
        "there ring all-reduce"
    ]


def test_a_paced_pass_is_told_as_one_and_not_as_computing() -> None:
    cluster = cases.star_cluster(4)
    nodes = tuple(replace(node, pace=Pace(0.0, 2.0)) for node in cluster.nodes)
    model = cases.mlp_model()
    ready = {each.name: (each.ready_order + 1) / len(model.variables) for each in model.variables}
    model = replace(model, profile=ModelProfile(0.5, 1.0, ready))
    cluster = replace(cluster, nodes=nodes)
    subject = Subject(BASELINES["all_reduce_25mb"](model, cluster), model, cluster, (), ())
    terms = terms_of(subject, breakdown(model, cluster, subject.strategy, Coefficients()))
    assert (terms[0].what, terms[0].seconds) == ("the paced passes", 2.0)
    assert all(each.seconds < 0.01 for each in terms if each.what.startswith("computing"))

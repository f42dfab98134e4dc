"""The explanation's traffic and times agree with the arithmetic behind them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator, Coefficients, breakdown, traffic
from autosync.report.explained import explanation_lines, terms_of
from autosync.runs.explain_input import ExplainInput
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    KeptPace,
    ModelProfile,
    ModelSpec,
    Pace,
    ParameterServer,
    RuntimeRecord,
    Strategy,
    TimingProtocol,
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
) -> ExplainInput:
    """A strategy with `shard` for every variable, or a baseline."""
    if shard is None:
        return ExplainInput(BASELINES[baseline](model, cluster), model, cluster, (), ())
    variables = tuple(VariableStrategy(variable.name, (shard,)) for variable in model.variables)
    return ExplainInput(Strategy(tuple(map(str, cluster.replica_devices)), variables), model, cluster, (), ())


def section(lines: list[str], title: str) -> list[str]:
    start = lines.index(title) + 1
    end = lines.index("", start) if "" in lines[start:] else len(lines)
    return [line.strip() for line in lines[start:end]]


def test_where_links_change_a_step_is_predicted_for_each_phase() -> None:
    cluster = cases.star_cluster(4, gbit_per_s=0.2)
    explained_input = subject(None, cases.changing(cluster, (60.0, 0.1), (120.0, 2.0)))
    first, *others = section(list(explanation_lines(explained_input)), "How long a step takes")
    by_rates = [
        breakdown(MODEL, explained_input.cluster.at(after), explained_input.strategy, Coefficients()).step
        for after in (0, 60, 120)
    ]
    said = [f"{1e3 * step:.3g} ms" if step < 1 else f"{1e3 * step:.0f} ms" for step in by_rates]
    assert first.startswith(f"Predicted for phase 0 of 0 to 2, by the first rates: {said[0]} a step (closed form, ")
    assert others[:2] == [
        f"{said[1]}  in phase 1, from 60 s after the cluster is up",
        f"{said[2]}  in phase 2, from 120 s after the cluster is up",
    ]
    assert len(set(said)) == 3
    steady = section(list(explanation_lines(subject(None, cluster))), "How long a step takes")
    assert steady[0].startswith(f"Predicted: {said[0]} a step")


def test_every_link_that_carries_something_is_in_the_table_the_busiest_first() -> None:
    cluster = cases.uneven_cluster()
    explained_input = subject(None, cluster)
    title, *rows = section(list(explanation_lines(explained_input)), "What crosses in one step")
    assert title.split() == ["link", "bytes", "messages", "ms", "at"]
    moved = traffic(MODEL, cluster, explained_input.strategy)
    used = {
        f"within {link.source}" if link.source == link.target else f"{link.source} > {link.target}"
        for link, carried in zip(cluster.links, moved.bytes, strict=True)
        if carried
    }
    assert {row.split("  ")[0] for row in rows} == used
    seconds = [float(row.split()[-4]) for row in rows]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] == pytest.approx(
        1e3 * breakdown(MODEL, cluster, explained_input.strategy, Coefficients()).links.max(), rel=0.01
    )


def test_how_an_all_reduce_goes_is_said_beside_what_links_allow() -> None:
    def lines_of(cluster: ClusterSpec, algorithm: str) -> list[str]:
        return section(list(explanation_lines(subject(AllReduce(0, algorithm), cluster))), "How all-reduces go")

    bound, how, pieces, *trees = lines_of(shaped(2, 2, 2), "fitted")
    assert bound == "All-reduces: with these links between nodes, no algorithm takes less than 107 ms per MB."
    assert how.startswith("Fitted: 111 ms per MB, 1.04 x the bound, in 360 messages per bucket")
    assert pieces == "in 6 pieces, each a round after the previous one; shares of each piece:"
    assert "16.7 %  node0 <- node1, node2 (node3), node4 (node5); -> the same" in trees
    assert lines_of(shaped(6), "fitted")[1].startswith(
        "Fitted, which here is halving-and-doubling: 66.7 ms per MB, 1.00"
    )
    assert "20.0 %  node4 <- node0, node1, node2, node3; -> the same" in lines_of(shaped(5), "direct")
    assert lines_of(cases.racks(2, 2, 2), "fitted")[2].endswith(
        "each by Rabenseifner and a round after the previous one"
    )


def test_servers_all_reduce_nothing() -> None:
    lines = list(explanation_lines(subject(ParameterServer("node0/cpu:0"), cases.star_cluster(4))))
    assert "How all-reduces go" not in lines


def test_one_replica_crosses_nothing() -> None:
    lines = list(explanation_lines(subject(AllReduce(0), cases.local_cluster(1), cases.mlp_model())))
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
    explained_input = subject(shard, cluster, model)
    terms = terms_of(explained_input, breakdown(model, cluster, explained_input.strategy, coefficients))
    assert terms[0].what == what
    assert [term.seconds for term in terms] == sorted((term.seconds for term in terms), reverse=True)
    assert all(term.seconds > 0 for term in terms)


def test_the_predicted_step_is_the_closed_forms() -> None:
    cluster = cases.star_cluster(4)
    explained_input = subject(None, cluster)
    (log_seconds,) = AnalyticSimulator().predict(MODEL, cluster, [explained_input.strategy])
    parts = breakdown(MODEL, cluster, explained_input.strategy, Coefficients())
    assert parts.step == pytest.approx(2.718281828459045**log_seconds)
    lines = section(list(explanation_lines(explained_input)), "How long a step takes")
    assert lines[0] == (
        f"Predicted: {1e3 * parts.step:.3g} ms a step (closed form, not fitted to this cluster: "
        f"its processors' speed is assumed)."
    )


def test_what_is_a_baseline_is_said_to_be_it() -> None:
    lines = list(explanation_lines(subject(None, cases.star_cluster(4))))
    assert section(lines, "The nearest baseline") == ["It is parallax: no decision differs."]


def test_the_nearest_baseline_is_compared_in_decisions_and_in_time() -> None:
    lines = section(
        list(explanation_lines(subject(AllReduce(0, "tree"), cases.star_cluster(4), cases.mlp_model()))),
        "The nearest baseline",
    )
    assert lines[0].startswith(
        "all_reduce_25mb, which has other decisions for 6 of 6 variables; the strategy is predicted to be "
    )
    assert lines[1:] == [
        "dense_1/kernel, dense_0/kernel, dense_2/kernel and 3 more (340 kB): binomial-tree all-reduce; "
        "there ring all-reduce"
    ]


def test_an_overlap_with_the_next_forward_pass_is_told_and_compared() -> None:
    barrier = subject(None, cases.star_cluster(4))
    lines = list(explanation_lines(replace(barrier, strategy=replace(barrier.strategy, overlap_next_forward=True))))
    assert section(lines, "What it does")[0] == (
        "Steps end without a barrier: gradients and new values also travel during the next forward pass."
    )
    first, *rest = section(lines, "The nearest baseline")
    assert first.startswith("parallax, which has other decisions for 0 of ")
    assert rest == ["its steps overlap with the next forward pass; there they end with a barrier"]


def test_a_paced_pass_is_told_as_one_and_not_as_computing() -> None:
    cluster = cases.star_cluster(4)
    nodes = tuple(replace(node, pace=Pace(0.0, 2.0)) for node in cluster.nodes)
    model = cases.mlp_model()
    ready = {variable.name: (variable.ready_order + 1) / len(model.variables) for variable in model.variables}
    model = replace(model, profile=ModelProfile(0.5, 1.0, ready))
    cluster = replace(cluster, nodes=nodes)
    subject = ExplainInput(BASELINES["all_reduce_25mb"](model, cluster), model, cluster, (), ())
    terms = terms_of(subject, breakdown(model, cluster, subject.strategy, Coefficients()))
    assert (terms[0].what, terms[0].seconds) == ("the paced passes", 2.0)
    assert all(term.seconds < 0.01 for term in terms if term.what.startswith("computing"))


def _paced_input(pass_seconds: float = 0.1) -> ExplainInput:
    cluster = cases.star_cluster(4, gbit_per_s=0.2)
    nodes = tuple(replace(node, pace=Pace(0.0, pass_seconds)) for node in cluster.nodes)
    ready = {variable.name: (1 + variable.ready_order) / len(MODEL.variables) for variable in MODEL.variables}
    model = replace(MODEL, profile=ModelProfile(0.1, 0.3, ready))
    return subject(None, replace(cluster, nodes=nodes), model, baseline="all_reduce_25mb")


def test_hidden_and_exposed_communication_add_up() -> None:
    explained_input = _paced_input()
    busy, parts, last = section(list(explanation_lines(explained_input)), "How much passes hide")
    communication, step = (float(number) for number in re.findall(r"([\d.]+) ms", busy))
    forward, backward, after = (float(number) for number in re.findall(r"([\d.]+) ms", parts))
    assert busy.endswith("(replay, not fitted).")
    assert forward == 0
    assert backward > 0
    assert forward + backward + after == pytest.approx(communication, abs=0.3)
    assert step > 100 + after
    assert last.startswith("Ends last: ")
    assert last.endswith(f", {step} ms after the step begins.")


def test_the_time_outside_the_passes_that_trials_measured_is_next_to_the_predicted() -> None:
    asked = _paced_input()
    kept = KeptPace("paced", "recorded", 0, (0.1,) * 4, (0.1, 0.1, 0.1, 0.11), (0.0,) * 4, (0.0,) * 4)
    trial = RuntimeRecord(
        asked.model, asked.cluster, asked.strategy, TimingProtocol(), "ok", "search", "trial", "run", 0, 1.0,
        step_seconds=(0.25, 0.26, 0.27), pace=kept,
    )  # fmt: skip
    unlike = replace(trial, strategy=BASELINES["parallax"](asked.model, asked.cluster))
    busy, *_, measured = section(
        list(explanation_lines(replace(asked, records=(trial, unlike)))), "How much passes hide"
    )
    assert busy.endswith("(replay, fitted to 2 timed records).")
    assert measured.startswith("Outside the slowest replica's passes: ")
    assert measured.endswith("predicted, 150.0 ms paced measured (median step minus its median passes, 1 trial).")


def test_the_forward_pass_hides_communication_of_a_step_without_a_barrier() -> None:
    asked = _paced_input()
    free = replace(asked, strategy=replace(asked.strategy, overlap_next_forward=True))
    _, parts, _ = section(list(explanation_lines(free)), "How much passes hide")
    forward, *_ = (float(number) for number in re.findall(r"([\d.]+) ms", parts))
    assert forward > 0

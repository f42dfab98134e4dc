"""Inputs of variables describe a strategy's decisions in shares and ratios."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from autosync.cost import Replay
from autosync.simulator.encoding import REPLAY_VARIABLE_INPUTS, TOPOLOGY_VARIABLE_INPUTS, VARIABLE_INPUTS, Encoder
from autosync.spec import (
    AllReduce,
    Cast,
    ClusterSpec,
    Figure,
    ModelSpec,
    ParameterServer,
    Partition,
    PowerSGD,
    Strategy,
    Synchronizer,
    TopK,
    Variable,
    VariableStrategy,
)
from tests import cases
from tests.space.samples import sampled

MODEL = ModelSpec(
    "three",
    8,
    "SGD",
    0,
    (
        Variable("a", (64, 16), "float32", 2),
        Variable("b", (16,), "float32", 1),
        Variable("c", (1000, 16), "float32", 0, sparse=True, rows_per_step=50.0),
    ),
)
CLUSTER = cases.uneven_cluster()
REPLICAS = tuple(map(str, CLUSTER.replica_devices))


def table(a: Synchronizer | tuple[Synchronizer, ...], b: Synchronizer, c: Synchronizer) -> dict[str, list[float]]:
    """Return inputs of the three variables by name; `a` is cut along axis 0 if it has several shards."""
    shards = a if isinstance(a, tuple) else (a,)
    cut = Partition(0, len(shards)) if len(shards) > 1 else None
    decided = (VariableStrategy("a", shards, cut), VariableStrategy("b", (b,)), VariableStrategy("c", (c,)))
    encoder = Encoder(MODEL, CLUSTER, REPLICAS)
    result = encoder.variables(encoder.shards(Strategy(REPLICAS, decided)), None)
    return dict(zip(VARIABLE_INPUTS, result.T.tolist(), strict=True))


def test_a_variable_weighs_its_share_of_the_gradients() -> None:
    result = table(AllReduce(0), AllReduce(1), AllReduce(2))
    gradient = np.array([64 * 16 * 4, 16 * 4, 50 * 16 * 4])
    assert result["bytes_share"] == pytest.approx(gradient / gradient.sum())
    assert result["log_bytes_over_mean"] == pytest.approx(np.log(gradient / gradient.mean()))
    assert result["sparse"] == [0, 0, 1]
    assert result["log_touched_share"] == pytest.approx([0, 0, math.log(50 / 1000)])
    assert result["ready_fraction"] == pytest.approx([1, 2 / 3, 1 / 3])


def test_a_bucket_is_as_heavy_as_all_in_it_and_waits_for_the_last() -> None:
    result = table(AllReduce(7, "tree"), AllReduce(7, "tree"), AllReduce(7))
    assert result["tree_share"] == [1, 1, 0]
    assert result["gathered_share"] == [0, 0, 1]
    assert result["log_bucket_over_own_bytes"] == pytest.approx([math.log(65 / 64), math.log(65), 0])
    assert result["bucket_bytes_share"] == pytest.approx([65 / 115, 65 / 115, 0])
    assert result["bucket_delay"] == pytest.approx([0, 1 / 3, 0])


def test_checkpoints_find_the_inputs_they_were_made_with() -> None:
    ways = (
        "server",
        "server_with_copies",
        "ring",
        "tree",
        "halving_doubling",
        "hierarchical",
        "collective",
        "gathered",
    )
    assert tuple(f"{way}_share" for way in ways) == tuple(name for name in VARIABLE_INPUTS if name[:-6] in ways)
    near, far = (
        table(AllReduce(0, algorithm), AllReduce(1), AllReduce(2)) for algorithm in ("rabenseifner", "halving_doubling")
    )
    assert near == far
    assert near["halving_doubling_share"] == [1, 0, 0]


def test_shards_count_by_their_bytes() -> None:
    servers = tuple(ParameterServer(f"node{number}/cpu:0", local_copy=number == 1) for number in (1, 3))
    result = table((*servers, AllReduce(0), AllReduce(0)), ParameterServer("node3/cpu:0"), AllReduce(1))
    assert result["server_share"] == pytest.approx([0.25, 1, 0])
    assert result["server_with_copies_share"] == pytest.approx([0.25, 0, 0])
    assert result["ring_share"] == pytest.approx([0.5, 0, 0])
    assert result["log_shards"] == pytest.approx([math.log(4), 0, 0])
    assert result["servers_share"] == pytest.approx([2 / 5, 1 / 5, 0])


def test_a_slow_servers_variables_know_it() -> None:
    fast, slow = (table(ParameterServer(f"node{k}/cpu:0"), AllReduce(0), AllReduce(1)) for k in (1, 3))
    assert slow["log_server_rate"][0] < 0 < fast["log_server_rate"][0]
    big = table(ParameterServer("node0/cpu:0"), AllReduce(0), AllReduce(1))
    assert big["log_server_cores"][0] - fast["log_server_cores"][0] == pytest.approx(math.log(4))
    assert fast["log_server_rate"][1] == 0


@pytest.mark.parametrize(
    ("compressor", "ratio"),
    [(Cast("bf16"), 0.5), (TopK(0.125), 0.25), (PowerSGD(2), 2 * 80 / 1024)],
    ids=["bf16", "top-k", "PowerSGD"],
)
def test_compressed_gradients_say_how_much_is_left(compressor, ratio: float) -> None:
    result = table(AllReduce(0, compressor=compressor), AllReduce(1), AllReduce(2))
    assert result["log_coded_ratio"] == pytest.approx([math.log(ratio), 0, 0])


def test_what_the_replay_says_is_in_shares_of_the_step() -> None:
    model, cluster = cases.ncf_like_model(), cases.star_cluster()
    [strategy] = sampled(model, cluster, 1)
    encoder, figures = Encoder(model, cluster, strategy.replicas), Replay().figures(model, cluster, strategy)
    result = encoder.variables(encoder.shards(strategy), figures)
    arrived = result[:, VARIABLE_INPUTS.index("arrived_share")]
    assert arrived == pytest.approx(figures.variables.arrived / figures.step_seconds)
    replayed = result[:, -len(REPLAY_VARIABLE_INPUTS) :]
    assert (replayed >= 0).all()
    assert (replayed <= 1 + 1e-9).all()
    assert not encoder.variables(encoder.shards(strategy), None)[:, -len(REPLAY_VARIABLE_INPUTS) :].any()


def faster(cluster: ClusterSpec, factor: float) -> ClusterSpec:
    def quicker(figure: Figure) -> Figure:
        return Figure(figure.value * factor, figure.source)

    links = tuple(replace(link, gbit_per_s=quicker(link.gbit_per_s)) for link in cluster.links)
    nodes = tuple(replace(node, cores=node.cores * factor) for node in cluster.nodes)
    return replace(cluster, links=links, nodes=nodes)


def test_a_cluster_that_is_faster_throughout_looks_the_same_but_for_its_times() -> None:
    model, shown = cases.bert_like_model(1), False
    topology = [VARIABLE_INPUTS.index(name) for name in TOPOLOGY_VARIABLE_INPUTS]
    for strategy in sampled(model, CLUSTER, 10):
        slow, fast = (Encoder(model, cluster, strategy.replicas) for cluster in (CLUSTER, faster(CLUSTER, 8.0)))
        result = fast.variables(fast.shards(strategy), None)
        np.testing.assert_allclose(result, slow.variables(slow.shards(strategy), None), atol=1e-12)
        shown |= bool(result[:, topology].any())
    assert shown

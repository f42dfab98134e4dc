"""The closed form agrees with bounds computed by hand, and ranks correctly in known cases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator, Coefficients, breakdown, traffic
from autosync.cost.capacity import ready_fractions
from autosync.cost.closed_form.loads import loads_by_replicas
from autosync.cost.closed_form.step_time import step_terms
from autosync.errors import SpecError
from autosync.spec import (
    AllReduce,
    Cast,
    ClusterSpec,
    Compressor,
    ModelSpec,
    ParameterServer,
    PowerSGD,
    Strategy,
    SufficientFactors,
    Synchronizer,
    TopK,
    Variable,
    VariableStrategy,
)
from tests import cases
from tests.cost.cases import all_by, dense_model, strategy_of

FREE = Coefficients(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, overlap=1.0)


def seconds(
    model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, coefficients: Coefficients | None = None
) -> float:
    return math.exp(AnalyticSimulator(coefficients).predict(model, cluster, [strategy])[0])


@pytest.mark.parametrize("nodes", [2, 4, 16])
def test_ring_time_approaches_its_bandwidth_bound(nodes: int) -> None:
    cluster = cases.star_cluster(nodes, gbit_per_s=0.2)
    found = seconds(dense_model(50_000_000), cluster, strategy_of(cluster, AllReduce(0)), FREE)
    assert found == pytest.approx(2 * (nodes - 1) / nodes * 200e6 / 25e6, rel=0.01)


def test_gradients_come_to_a_parameter_server_while_values_leave_it() -> None:
    cluster = cases.star_cluster(4, gbit_per_s=0.2)
    strategy = strategy_of(cluster, ParameterServer("node0/cpu:0"))
    one_way = 3 * 200e6 / 25e6
    assert seconds(dense_model(50_000_000), cluster, strategy, FREE) == pytest.approx(one_way, rel=0.01)
    nothing_at_once = replace(FREE, overlap=0.0)
    assert seconds(dense_model(50_000_000), cluster, strategy, nothing_at_once) == pytest.approx(2 * one_way, rel=0.01)


def test_rows_are_pulled_before_gradients_can_be_pushed() -> None:
    cluster = cases.star_cluster(4, gbit_per_s=0.2)
    model = ModelSpec("w", 8, "SGD", 0, (Variable("w", (10**6, 50), "float32", 0, sparse=True, rows_per_step=1e6),))
    found = seconds(model, cluster, strategy_of(cluster, ParameterServer("node0/cpu:0")), FREE)
    assert found == pytest.approx(2 * 3 * 200e6 / 25e6, rel=0.01)


def test_one_parameter_server_is_slower_than_a_ring_for_a_dense_model() -> None:
    cluster, model = cases.star_cluster(4, gbit_per_s=0.2), dense_model(1_000_000)
    server = seconds(model, cluster, strategy_of(cluster, ParameterServer("node0/cpu:0")))
    assert server > 1.5 * seconds(model, cluster, strategy_of(cluster, AllReduce(0)))


def test_a_server_for_few_touched_rows_is_faster_than_reducing_a_dense_embedding() -> None:
    cluster = cases.star_cluster(4, gbit_per_s=0.2)
    sparse, dense = (
        ModelSpec("embedding", 8, "SGD", 0, (Variable("w", (100_000, 32), "float32", 0, **touched),))
        for touched in ({"sparse": True, "rows_per_step": 300.0}, {})
    )
    rows = seconds(sparse, cluster, strategy_of(cluster, ParameterServer("node0/cpu:0")))
    assert rows < 0.2 * seconds(dense, cluster, strategy_of(cluster, AllReduce(0)))


def test_a_server_behind_a_slow_link_is_slower() -> None:
    cluster, model = cases.uneven_cluster(), dense_model()
    slow = seconds(model, cluster, strategy_of(cluster, ParameterServer("node3/cpu:0")))
    assert slow > 2 * seconds(model, cluster, strategy_of(cluster, ParameterServer("node1/cpu:0")))


def per_variable(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    decisions = tuple(VariableStrategy(variable.name, (AllReduce(k),)) for k, variable in enumerate(model.variables))
    return Strategy(tuple(map(str, cluster.replica_devices)), decisions)


def test_on_one_machine_many_buckets_cost_messages_and_time() -> None:
    cluster, model = cases.local_cluster(4), cases.bert_like_model(sparse=False)
    many, single = per_variable(model, cluster), all_by(model, cluster, AllReduce(0))
    assert traffic(model, cluster, many).messages.sum() == 75 * traffic(model, cluster, single).messages.sum()
    assert seconds(model, cluster, many) > seconds(model, cluster, single)


def test_on_slow_links_buckets_that_start_early_hide_behind_the_backward_pass() -> None:
    cluster, model = cases.star_cluster(4), cases.bert_like_model(sparse=False)
    overlapping = Coefficients(core_seconds_per_message=0.0, overlap=1.0)
    many = seconds(model, cluster, per_variable(model, cluster), overlapping)
    assert many < seconds(model, cluster, all_by(model, cluster, AllReduce(0)), overlapping)


def test_more_overlap_is_never_slower_and_more_of_any_cost_never_faster() -> None:
    cluster, model = cases.star_cluster(4), cases.bert_like_model()
    strategy = all_by(model, cluster, AllReduce(0))
    base = seconds(model, cluster, strategy)
    for name, value in Coefficients().to_json().items():
        changed = Coefficients(**{**Coefficients().to_json(), name: min(2 * value, 1.0)})
        found = seconds(model, cluster, strategy, changed)
        assert found <= base if name == "overlap" else found >= base


def test_processes_on_one_machine_share_its_cores() -> None:
    model, compute = dense_model(flops=1e9), Coefficients(0.0, 1e-10, 0.0, 0.0, 0.0, 0.0, 1.0)
    for workers in (1, 4, 8):
        cluster = cases.local_cluster(workers)
        _, _, loads = next(loads_by_replicas(model, cluster, [strategy_of(cluster, AllReduce(0))]))
        # A forward pass and a backward pass of twice its flops, on the machine's four cores.
        assert step_terms(loads, compute).compute == pytest.approx(3 * 1e9 * 1e-10 * workers / 4)


def test_gpus_compute_at_their_own_rate() -> None:
    cluster, model = cases.gpu_cluster(), dense_model(flops=1e12)
    on_gpu = Coefficients(0.0, 1e-10, 2e-13, 0.0, 0.0, 0.0, 1.0)
    _, _, loads = next(loads_by_replicas(model, cluster, [strategy_of(cluster, AllReduce(0))]))
    assert step_terms(loads, on_gpu).compute == pytest.approx(3 * 0.2)


def test_gradients_become_ready_as_the_backward_pass_visits_their_operators() -> None:
    fractions = ready_fractions(cases.mlp_model(widths=(100, 100, 100, 100)))
    assert fractions["dense_2/kernel"] == pytest.approx(1 / 3)
    assert fractions["dense_1/bias"] == pytest.approx(2 / 3)
    assert fractions["dense_0/kernel"] == pytest.approx(1)


def test_without_operators_gradients_become_ready_at_equal_intervals() -> None:
    fractions = ready_fractions(cases.scalar_model())
    assert fractions == {"c": pytest.approx(1 / 3), "b": pytest.approx(2 / 3), "a": pytest.approx(1)}


def test_every_example_model_and_cluster_has_a_finite_time() -> None:
    clusters = [cases.local_cluster(1), cases.uneven_cluster(), cases.rack_cluster(), cases.gpu_cluster()]
    for model in (cases.ncf_like_model(), cases.prime_model(), cases.scalar_model(), cases.mixed_precision_model()):
        for cluster in clusters:
            server = ParameterServer(str(cluster.server_devices[-1]), local_copy=True)
            strategies = [per_variable(model, cluster), all_by(model, cluster, server)]
            assert np.isfinite(AnalyticSimulator().predict(model, cluster, strategies)).all()


@pytest.mark.parametrize(("name", "value"), [("overlap", 1.5), ("core_seconds_per_byte", -1.0), ("overlap", math.nan)])
def test_impossible_coefficients_are_refused(name: str, value: float) -> None:
    with pytest.raises(SpecError, match=f"Coefficient {name} "):
        Coefficients(**{name: value})


def big(cluster: ClusterSpec, synchronizer: Synchronizer, coefficients: Coefficients = FREE) -> float:
    return seconds(dense_model(50_000_000), cluster, strategy_of(cluster, synchronizer), coefficients)


def test_a_tree_waits_for_its_rounds_one_after_the_other() -> None:
    # Two rounds up and two down, each with a whole bucket over one link; halving and doubling sends as much as a ring.
    cluster = cases.star_cluster(4, gbit_per_s=0.2)
    assert big(cluster, AllReduce(0, "tree")) == pytest.approx(4 * 200e6 / 25e6, rel=0.01)
    assert big(cluster, AllReduce(0, "halving_doubling")) == pytest.approx(big(cluster, AllReduce(0)), rel=0.01)


def test_trees_of_several_buckets_use_both_directions_of_a_link_at_once() -> None:
    cluster, model = cases.star_cluster(4, gbit_per_s=0.2), dense_model(50_000_000)
    halves = strategy_of(cluster, AllReduce(0, "tree"), AllReduce(1, "tree"))
    assert seconds(model, cluster, halves, FREE) == pytest.approx(2 * 200e6 / 25e6, rel=0.01)


def test_a_tiny_bucket_goes_up_and_down_a_tree_in_fewer_rounds_than_round_a_ring() -> None:
    cluster, model = cases.star_cluster(8), dense_model(8)
    tree, ring = (
        seconds(model, cluster, strategy_of(cluster, AllReduce(0, algorithm)), FREE) for algorithm in ("tree", "ring")
    )
    assert tree == pytest.approx(ring * 6 / 14, rel=0.05)


def test_a_ring_of_node_leaders_crosses_the_network_less_than_a_ring_that_goes_back_and_forth() -> None:
    cluster, model = cases.star_cluster(4, gbit_per_s=0.2, workers=2), dense_model(50_000_000)
    back_and_forth = tuple(f"node{node}/cpu:{worker}" for worker in (0, 1) for node in range(4))
    flat, led = (
        Strategy(back_and_forth, (VariableStrategy("w", (AllReduce(0, algorithm),)),))
        for algorithm in ("ring", "hierarchical")
    )
    assert seconds(model, cluster, led, FREE) < 0.6 * seconds(model, cluster, flat, FREE)


@pytest.mark.parametrize("compressor", [Cast("bf16"), TopK(0.01), TopK(0.01, "star"), TopK(0.01, "var")], ids=repr)
def test_compression_saves_time_where_links_are_the_limit_and_costs_work(compressor: Compressor) -> None:
    cluster = cases.star_cluster(4, gbit_per_s=0.2)
    assert big(cluster, AllReduce(0, compressor=compressor)) < 0.6 * big(cluster, AllReduce(0))
    slow = Coefficients(0.0, 0.0, 0.0, 0.0, 0.0, core_seconds_per_reduced_byte=1e-6, overlap=1.0)
    model, here = dense_model(), cases.local_cluster(4)
    whole, coded = (strategy_of(here, AllReduce(0, compressor=choice)) for choice in (None, compressor))
    assert seconds(model, here, coded, slow) > seconds(model, here, whole, slow)


def matrix_model() -> ModelSpec:
    return ModelSpec("matrix", 8, "SGD", 0, (Variable("w", (2000, 1000), "float32", 0, factor_rows=16),))


@pytest.mark.parametrize("compressor", [PowerSGD(4), SufficientFactors()], ids=repr)
@pytest.mark.parametrize("server", [False, True])
def test_factors_of_a_matrix_save_time_where_links_are_the_limit(compressor: Compressor, server: bool) -> None:
    cluster = cases.star_cluster(4, gbit_per_s=0.2)
    whole, factors = (
        ParameterServer("node0/cpu:0", compressor=choice) if server else AllReduce(0, compressor=choice)
        for choice in (None, compressor)
    )
    # A server's values go back uncompressed. With overlap, they hide the bytes saved by compressed gradients.
    free = replace(FREE, overlap=0.0 if server else 1.0)
    found = [seconds(matrix_model(), cluster, strategy_of(cluster, choice), free) for choice in (whole, factors)]
    assert found[1] < (0.6 if server else 0.2) * found[0]


def test_a_breakdown_has_the_busy_seconds_of_each_link_node_and_server() -> None:
    cluster, model = cases.star_cluster(4, gbit_per_s=0.2), dense_model(50_000_000, slots=1, flops=1e9)
    strategy = strategy_of(cluster, ParameterServer("node1/cpu:0"))
    parts = breakdown(model, cluster, strategy, Coefficients())
    found = dict(zip(((link.source, link.target) for link in cluster.links), parts.links.tolist(), strict=True))
    assert found["node1", "switch"] == pytest.approx(3 * 200e6 / 25e6)
    assert found["node0", "switch"] == pytest.approx(200e6 / 25e6)
    assert parts.servers.tolist() == [0, pytest.approx((4 + 2) * 200e6 * 3e-10), 0, 0]
    assert parts.compute == pytest.approx(np.full(4, 3 * 1e9 * 1e-10 / 2))
    assert parts.nodes.argmax() == 1
    assert (parts.gpu_compute, parts.overhead, parts.chain) == (0, 5e-3, 0)
    assert parts.step == pytest.approx(seconds(model, cluster, strategy))

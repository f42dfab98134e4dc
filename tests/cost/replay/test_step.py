"""Replayed steps agree with bounds computed by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.cost import traffic
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay import Replay, exchange_seconds, step_of
from autosync.errors import SpecError
from autosync.layout.exchange import Stage, Transfer
from autosync.layout.fusion import piece_sizes
from autosync.spec import (
    ALGORITHMS,
    AllReduce,
    Cast,
    ClusterSpec,
    ModelProfile,
    ModelSpec,
    Operator,
    ParameterServer,
    PowerSGD,
    SharedCores,
    Strategy,
    SufficientFactors,
    Synchronizer,
    TopK,
    Variable,
    VariableStrategy,
)
from tests import cases
from tests.cost.cases import all_by, dense_model, sparse_model, strategy_of
from tests.cost.test_racks import ALTERNATING, BESIDE_ONE, MODEL, MODEL_BYTES, UPLINK_BYTES_PER_SECOND, racks, ring

FREE = ReplayCoefficients(*[0.0] * 7, core_seconds_per_shard=0.0, overlap=1.0, link_overhead=0.0)
RATE = 25e6
"""Bytes a second of the star cluster's links."""


def seconds(
    model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, coefficients: ReplayCoefficients = FREE
) -> float:
    return math.exp(Replay(coefficients).predict(model, cluster, [strategy])[0])


@pytest.mark.parametrize("nodes", [2, 4, 16])
def test_a_large_ring_takes_its_bandwidth_bound(nodes: int) -> None:
    cluster = cases.star_cluster(nodes)
    found = seconds(dense_model(50_000_000), cluster, strategy_of(cluster, AllReduce(0)))
    assert found == pytest.approx(2 * (nodes - 1) / nodes * 200e6 / RATE, rel=0.01)


def test_a_small_ring_takes_the_latency_of_its_hops() -> None:
    cluster = cases.star_cluster(8)
    found = seconds(dense_model(8), cluster, strategy_of(cluster, AllReduce(0)))
    assert found == pytest.approx(14 * 100e-6, rel=0.01)


def test_a_tree_sends_whole_buckets_round_after_round() -> None:
    cluster = cases.star_cluster(8)
    found = seconds(dense_model(5_000_000), cluster, strategy_of(cluster, AllReduce(0, "tree")))
    assert found == pytest.approx(6 * 20e6 / RATE, rel=0.01)


def test_halving_and_doubling_takes_the_rings_bandwidth_and_fewer_hops() -> None:
    cluster = cases.star_cluster(8)
    strategies = [strategy_of(cluster, AllReduce(0, algorithm)) for algorithm in ("ring", "halving_doubling")]
    large = [seconds(dense_model(5_000_000), cluster, strategy) for strategy in strategies]
    small = [seconds(dense_model(8), cluster, strategy) for strategy in strategies]
    assert large[1] == pytest.approx(large[0], rel=0.01)
    assert small[1] == pytest.approx(small[0] * 6 / 14, rel=0.01)


def test_a_hierarchical_all_reduce_crosses_between_nodes_once_a_node() -> None:
    cluster = cases.star_cluster(4, workers=4)
    flat, by_node = (
        seconds(dense_model(5_000_000), cluster, strategy_of(cluster, AllReduce(0, algorithm)))
        for algorithm in ("ring", "hierarchical")
    )
    loopback = 40e9 / 8
    assert by_node == pytest.approx(1.5 * 20e6 / RATE + 2 * 3 * 20e6 / loopback, rel=0.01)
    assert flat == pytest.approx(2 * 15 / 16 * 20e6 / RATE, rel=0.01)


def test_a_server_sends_new_values_while_other_gradients_still_come_in() -> None:
    cluster, size = cases.star_cluster(4), 200e6
    found = seconds(dense_model(50_000_000), cluster, strategy_of(cluster, ParameterServer("node0/cpu:0")))
    one_way = 3 * size / RATE
    # The last of its pieces goes back when all pieces have arrived.
    pieces = len(piece_sizes(50_000_000, 4))
    assert pieces >= 8
    assert found == pytest.approx(one_way * (1 + 1 / pieces), rel=0.01)


def test_a_small_value_goes_back_when_its_gradient_has_come_in() -> None:
    cluster, size = cases.star_cluster(4), 4 * 50_000
    found = seconds(dense_model(50_000), cluster, strategy_of(cluster, ParameterServer("node0/cpu:0")))
    assert found == pytest.approx(2 * (3 * size / RATE + 100e-6), rel=0.01)


def test_a_sparse_variables_rows_are_fetched_before_the_forward_pass() -> None:
    cluster, model = cases.star_cluster(4), sparse_model(rows=100_000, width=100, touched=50_000)
    strategy = strategy_of(cluster, ParameterServer("node0/cpu:0"))
    rows = 50_000 * 100 * 4
    found = Replay(FREE).figures(model, cluster, strategy)
    assert found.step_seconds == pytest.approx(2 * 3 * rows / RATE, rel=0.05)
    assert found.variables.first_sent[0] >= 3 * rows / RATE


def test_rows_are_not_held_up_by_the_row_numbers_that_ask_for_others() -> None:
    cluster, touched, width = cases.uneven_cluster(), 50_000, 16
    variables = tuple(
        Variable(f"table{number}", (2 * touched, width), "float32", number, sparse=True, rows_per_step=touched)
        for number in range(8)
    )
    model = ModelSpec("tables", 8, "SGD", 0, variables)
    strategy = _each(model, cluster, [ParameterServer(f"node{number % 4}/cpu:0") for number in range(8)])
    # The slow link's server has two tables, four of the five replicas are on other nodes, and rows travel both ways.
    of_slow_link = 2 * 2 * 4 * touched * width * 4 / 12.5e6
    assert of_slow_link <= seconds(model, cluster, strategy) < 1.05 * of_slow_link


def test_the_optimizers_update_counts_on_the_server_and_before_the_value_is_sent() -> None:
    cluster, update = cases.star_cluster(4), replace(FREE, core_seconds_per_updated_byte=1e-6)
    strategy = strategy_of(cluster, ParameterServer("node0/cpu:0"))
    without, with_slots = (seconds(dense_model(50_000, slots=slots), cluster, strategy, update) for slots in (0, 2))
    assert with_slots - without == pytest.approx(2 * 200_000 * 1e-6, rel=0.01)


def test_a_ring_that_alternates_between_racks_takes_twice_as_long() -> None:
    cluster = racks(2, 2)
    beside, alternating = (seconds(MODEL, cluster, ring(order)) for order in (BESIDE_ONE, ALTERNATING))
    assert beside == pytest.approx(1.5 * MODEL_BYTES / UPLINK_BYTES_PER_SECOND, rel=0.01)
    assert alternating == pytest.approx(3 * MODEL_BYTES / UPLINK_BYTES_PER_SECOND, rel=0.01)


def _one_after_the_other() -> ModelSpec:
    """Ten equal layers."""
    variables = tuple(Variable(f"v{number}", (1_000_000,), "float32", 9 - number) for number in range(10))
    operators = tuple(Operator(f"o{number}", "dense", 1e9, (), (f"v{number}",)) for number in range(10))
    return ModelSpec("layers", 8, "SGD", 0, variables, operators)


def _each(model: ModelSpec, cluster: ClusterSpec, synchronizers: Sequence[Synchronizer]) -> Strategy:
    pairs = zip(model.variables, synchronizers, strict=True)
    decisions = tuple(VariableStrategy(variable.name, (synchronizer,)) for variable, synchronizer in pairs)
    return Strategy(tuple(map(str, cluster.replica_devices)), decisions)


def test_gradients_that_are_ready_travel_during_the_backward_pass_as_far_as_overlap_allows() -> None:
    model, cluster = _one_after_the_other(), cases.star_cluster(4)
    strategy = _each(model, cluster, [AllReduce(group) for group in range(10)])
    compute = replace(FREE, core_seconds_per_flop=1e-10)
    forward, communication = 0.5, 10 * 1.5 * 4e6 / RATE
    overlapped, serial = (
        seconds(model, cluster, strategy, replace(compute, overlap=overlap)) for overlap in (1.0, 0.0)
    )
    # The first of ten gradients is ready after a tenth of the backward pass.
    assert overlapped == pytest.approx(forward + 0.1 * 2 * forward + communication, rel=0.02)
    assert serial == pytest.approx(3 * forward + communication, rel=0.02)


def test_one_bucket_of_all_gradients_overlaps_nothing() -> None:
    model, cluster = _one_after_the_other(), cases.star_cluster(4)
    found = Replay(replace(FREE, core_seconds_per_flop=1e-10)).figures(
        model, cluster, all_by(model, cluster, AllReduce(0))
    )
    assert found.exposed_seconds == pytest.approx(found.communication_seconds)


def test_nodes_that_share_processors_compute_in_turn() -> None:
    model, cluster = _one_after_the_other(), cases.star_cluster(4)
    strategy = all_by(model, cluster, AllReduce(0))
    replay = Replay(replace(FREE, core_seconds_per_flop=1e-10))
    cores = cluster.nodes[0].cores

    def sharing(*machines: SharedCores | None) -> ClusterSpec:
        nodes = zip(cluster.nodes, machines, strict=True)
        return replace(cluster, nodes=tuple(replace(node, shared_cores=machine) for node, machine in nodes))

    def compute_seconds(on: ClusterSpec) -> float:
        return replay.figures(model, on, strategy).compute_seconds

    apart = compute_seconds(cluster)
    assert compute_seconds(sharing(*[SharedCores("one", cores)] * 4)) == pytest.approx(4 * apart)
    assert compute_seconds(sharing(*[SharedCores("one", 2 * cores)] * 4)) == pytest.approx(2 * apart)
    two = SharedCores("one", cores), SharedCores("other", cores)
    assert compute_seconds(sharing(*two, *two)) == pytest.approx(2 * apart)
    assert compute_seconds(sharing(SharedCores("one", cores), None, None, None)) == pytest.approx(apart)


def test_workers_of_one_machine_share_its_cores() -> None:
    model = _one_after_the_other()
    compute = replace(FREE, core_seconds_per_flop=1e-10)
    found = [
        Replay(compute).figures(model, cluster, all_by(model, cluster, AllReduce(0))).compute_seconds
        for cluster in (cases.local_cluster(1), cases.local_cluster(4))
    ]
    assert found[1] == pytest.approx(4 * found[0])


def test_messages_cost_both_ends_cores() -> None:
    cluster, model = cases.star_cluster(2), dense_model(2)
    strategy = strategy_of(cluster, AllReduce(0))
    found = seconds(model, cluster, strategy, replace(FREE, core_seconds_per_message=1e-2))
    assert found == pytest.approx(2 * (100e-6 + 2e-2), rel=0.01)


def test_a_gpu_computes_beside_the_cores() -> None:
    model, cluster = _one_after_the_other(), cases.gpu_cluster()
    strategy = all_by(model, cluster, AllReduce(0))
    found = Replay(replace(FREE, gpu_seconds_per_flop=1e-11)).figures(model, cluster, strategy)
    assert found.compute_seconds == pytest.approx(3 * 1e10 * 1e-11)


def test_a_measured_profile_takes_the_place_of_flops() -> None:
    model, cluster = _one_after_the_other(), cases.star_cluster(4)
    profile = ModelProfile(0.2, 0.8, {variable.name: 1.0 for variable in model.variables})
    strategy = _each(model, cluster, [AllReduce(group) for group in range(10)])
    found = Replay(replace(FREE, profile_scale=2.0)).figures(replace(model, profile=profile), cluster, strategy)
    assert found.compute_seconds == pytest.approx((0.2 + 0.8) / 2 * 2)
    assert found.variables.ready.tolist() == pytest.approx([found.compute_seconds] * 10)


COMPRESSORS = [None, Cast("bf16"), Cast("fp16"), TopK(0.01), TopK(0.01, "star"), PowerSGD(2), SufficientFactors()]


@pytest.mark.parametrize(
    ("compressor", "on_server"),
    [(compressor, False) for compressor in COMPRESSORS]
    + [(compressor, True) for compressor in COMPRESSORS if compressor != TopK(0.01, "star")],
    ids=str,
)
def test_links_carry_what_the_traffic_says(compressor, on_server: bool) -> None:
    variables = (
        Variable("kernel", (600, 400), "float32", 1, factor_rows=8),
        Variable("other", (300, 200), "float32", 0, factor_rows=8),
    )
    model = ModelSpec("two", 8, "SGD", 1, variables)
    for cluster in (cases.uneven_cluster(), cases.rack_cluster(), cases.gpu_cluster()):
        how = (
            ParameterServer("node0/cpu:0", compressor=compressor) if on_server else AllReduce(0, compressor=compressor)
        )
        _agrees_with_traffic(model, cluster, all_by(model, cluster, how))


@pytest.mark.parametrize("baseline", BASELINES)
def test_links_carry_what_the_traffic_of_baselines_says(baseline: str) -> None:
    for model in (cases.bert_like_model(2), cases.ncf_like_model()):
        for cluster in (cases.star_cluster(3), cases.uneven_cluster(), cases.local_cluster(), cases.gpu_cluster(40, 1)):
            _agrees_with_traffic(model, cluster, BASELINES[baseline](model, cluster))


def _agrees_with_traffic(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> None:
    step = step_of(model, cluster, strategy)
    busy = step.tasks(FREE).total()[step.catalogue.places.of_column][step.resources.links]
    assert busy * step.resources.bytes_per_second == pytest.approx(traffic(model, cluster, strategy).bytes, rel=1e-6)


def test_traffic_of_many_replicas_that_send_to_all_others_is_counted_correctly() -> None:
    model = cases.ncf_like_model()
    for cluster in (cases.gpu_cluster(3, 12), cases.star_cluster(3, workers=12)):
        strategy = all_by(model, cluster, AllReduce(0))
        _agrees_with_traffic(model, cluster, strategy)


def test_a_strategy_that_does_not_fit_says_why() -> None:
    cluster, model = cases.star_cluster(4), dense_model()
    with pytest.raises(SpecError, match="which cannot hold parameters"):
        seconds(model, cluster, strategy_of(cluster, ParameterServer("node9/cpu:0")))
    with pytest.raises(SpecError, match="is not in the cluster"):
        seconds(model, cluster, Strategy(("node9/cpu:0",), (VariableStrategy("w", (AllReduce(0),)),)))
    with pytest.raises(SpecError, match="has no synchronizer"):
        seconds(model, cluster, Strategy(("node0/cpu:0",), ()))


def test_one_replica_alone_sends_nothing() -> None:
    model, cluster = cases.mlp_model(), cases.star_cluster(2)
    alone = Strategy(("node0/cpu:0",), all_by(model, cluster, AllReduce(0)).variables)
    found = Replay().figures(model, cluster, alone)
    assert not found.utilization[step_of(model, cluster, alone).resources.links].any()
    assert np.isfinite(found.variables.arrived).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 8])
def test_links_carry_what_the_traffic_of_every_algorithm_says(algorithm: str, nodes: int) -> None:
    cluster = cases.star_cluster(nodes, workers=2)
    _agrees_with_traffic(dense_model(1_000_003), cluster, strategy_of(cluster, AllReduce(0, algorithm)))


def test_stale_values_are_pulled_when_the_step_begins() -> None:
    cluster, model = cases.star_cluster(4), dense_model(50_000)
    strategy = strategy_of(cluster, ParameterServer("node0/cpu:0", staleness=2))
    one_way = 3 * model.gradient_bytes / RATE
    found = Replay(FREE).figures(model, cluster, strategy)
    assert found.variables.ready[0] == pytest.approx(one_way, rel=0.01)
    assert found.step_seconds == pytest.approx(2 * one_way, rel=0.01)
    _agrees_with_traffic(model, cluster, strategy)


def test_rings_go_round_in_pieces_where_chunks_are_large() -> None:
    # Adding takes as long as the link. With pieces, one piece is added while the next is on its way.
    cluster = cases.star_cluster(4)
    adding = replace(FREE, core_seconds_per_reduced_byte=2 / RATE)
    whole, in_pieces = 4 * 700_000 // 4, 4 * 4_000_000 // 4
    small = seconds(dense_model(whole), cluster, strategy_of(cluster, AllReduce(0)), adding)
    large = seconds(dense_model(in_pieces), cluster, strategy_of(cluster, AllReduce(0)), adding)
    assert large / in_pieces < 0.75 * small / whole


def test_an_exchange_alone_shares_links_fairly() -> None:
    cluster = racks(2, 2)
    within, across = (Transfer("node0/cpu:0", to, payload=1.0) for to in ("node1/cpu:0", "node2/cpu:0"))
    second = Transfer("node1/cpu:0", "node3/cpu:0", payload=1.0)
    size = 1e8
    node_link, uplink = size / 125e6, size / UPLINK_BYTES_PER_SECOND
    assert exchange_seconds(cluster, [Stage((within,))], size, FREE) == pytest.approx(node_link, rel=0.01)
    assert exchange_seconds(cluster, [Stage((within, across))], size, FREE) == pytest.approx(uplink, rel=0.01)
    assert exchange_seconds(cluster, [Stage((across, second))], size, FREE) == pytest.approx(2 * uplink, rel=0.01)
    assert exchange_seconds(cluster, [Stage((across,)), Stage((second,))], size, FREE) == pytest.approx(
        2 * uplink, rel=0.01
    )
    assert exchange_seconds(cluster, [], size, FREE) == 0.0

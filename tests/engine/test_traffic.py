"""The bytes that cross between devices in a traced step: what the strategy says, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from itertools import permutations
from typing import Any

import pytest
import tensorflow as tf

from autosync.engine.step.realize import Session, Step
from autosync.spec import PLACED_ALGORITHMS, AllReduce, Cast, ParameterServer, Strategy, VariableStrategy
from tests.cases import local_cluster, star_cluster
from tests.contracts.parity import session_on

THREE_WORKERS, FOUR_WORKERS = local_cluster(3), local_cluster(4)
TWO_BY_TWO = star_cluster(nodes=2, workers=2)


def _crossing(step: Step) -> list[tuple[int, int, Any]]:
    """Every float tensor that one device makes and another reads, once a reader, without the replicas' losses."""
    graph = step._own_batches.get_concrete_function().graph
    sum_of_losses = graph.outputs[0].op
    while sum_of_losses.type != "AddN":
        sum_of_losses = sum_of_losses.inputs[0].op
    crossing = {}
    for operation in graph.get_operations():
        for tensor in operation.inputs:
            source, target = _device(tensor.op), _device(operation)
            if (
                tensor.dtype.is_floating
                and operation is not sum_of_losses
                and None not in (source, target)
                and source != target
            ):
                crossing[tensor.name, target] = (source, target, tensor)
    return list(crossing.values())


def _device(operation: Any) -> int | None:
    return tf.DeviceSpec.from_string(operation.device).device_index if operation.device else None


def _bytes_crossing(step: Step) -> dict[tuple[int, int], int]:
    """Bytes by (source, target) device."""
    found: dict[tuple[int, int], int] = defaultdict(int)
    for source, target, tensor in _crossing(step):
        found[source, target] += tensor.shape.num_elements() * tensor.dtype.size
    return dict(found)


def _step(session: Session, synchronizer: Any) -> Step:
    replicas = tuple(str(each) for each in session.cluster.replica_devices)
    variables = tuple(VariableStrategy(each.name, (synchronizer,)) for each in session.model.variables)
    return session.realize(Strategy(replicas, variables))


@pytest.fixture(scope="module")
def model_bytes():
    return sum(each.bytes for each in session_on("dense", "SGD", FOUR_WORKERS).model.variables)


def test_a_ring_sends_two_n_minus_one_nths_of_the_bytes_to_the_next_replica_only(model_bytes):
    step = _step(session_on("dense", "SGD", FOUR_WORKERS), AllReduce(0))
    crossing = _bytes_crossing(step)
    assert set(crossing) == {(0, 1), (1, 2), (2, 3), (3, 0)}
    assert sum(crossing.values()) == 2 * 3 * model_bytes
    for sent in crossing.values():
        assert abs(sent - 2 * 3 / 4 * model_bytes) <= 2 * 4  # chunks differ by one element


def test_a_tree_sends_whole_buckets_to_the_first_replica_and_back(model_bytes):
    step = _step(session_on("dense", "SGD", FOUR_WORKERS), AllReduce(0, "tree"))
    edges = ((1, 0), (3, 2), (2, 0))
    both_ways = [pair for child, parent in edges for pair in ((child, parent), (parent, child))]
    assert _bytes_crossing(step) == dict.fromkeys(both_ways, model_bytes)


@pytest.mark.parametrize(("algorithm", "halves_go"), [("halving_doubling", "far"), ("rabenseifner", "near")])
def test_a_half_goes_to_one_partner_and_a_quarter_to_the_other(algorithm, halves_go, model_bytes):
    crossing = _bytes_crossing(_step(session_on("dense", "SGD", FOUR_WORKERS), AllReduce(0, algorithm)))
    pairs = {"far": [(0, 2), (1, 3), (2, 0), (3, 1)], "near": [(0, 1), (1, 0), (2, 3), (3, 2)]}
    assert set(crossing) == {*pairs["far"], *pairs["near"]}
    assert sum(crossing.values()) == 2 * 3 * model_bytes
    for pair, sent in crossing.items():
        share = 1 / 2 if pair in pairs[halves_go] else 1 / 4
        assert abs(sent - 2 * model_bytes * share) <= 2 * 4  # halves differ by an element


@pytest.mark.parametrize("algorithm", ["halving_doubling", "rabenseifner", "blueconnect"])
def test_each_of_three_replicas_sends_each_other_one_a_third_and_as_much_back(algorithm, model_bytes):
    crossing = _bytes_crossing(_step(session_on("dense", "SGD", THREE_WORKERS), AllReduce(0, algorithm)))
    assert set(crossing) == set(permutations(range(3), 2))
    assert sum(crossing.values()) == 2 * 2 * model_bytes
    for sent in crossing.values():
        assert abs(sent - 2 * model_bytes / 3) <= 2 * 4  # thirds differ by an element


def test_a_hierarchy_crosses_nodes_in_a_ring_of_their_first_replicas(model_bytes):
    crossing = _bytes_crossing(_step(session_on("dense", "SGD", TWO_BY_TWO), AllReduce(0, "hierarchical")))
    within = [(1, 0), (0, 1), (3, 2), (2, 3)]
    assert set(crossing) == {*within, (0, 2), (2, 0)}
    assert {crossing[pair] for pair in within} == {model_bytes}
    assert crossing[0, 2] + crossing[2, 0] == 2 * model_bytes


@pytest.mark.parametrize("cast", ["bf16", "fp16"])
@pytest.mark.parametrize("algorithm", PLACED_ALGORITHMS)
def test_in_16_bits_half_the_bytes_of_every_all_reduce_cross(algorithm, cast):
    session = session_on("dense", "SGD", TWO_BY_TWO)
    whole = _bytes_crossing(_step(session, AllReduce(0, algorithm)))
    rounded = _bytes_crossing(_step(session, AllReduce(0, algorithm, Cast(cast))))
    assert set(rounded) == set(whole)
    for pair, sent in rounded.items():
        assert sent * 2 <= whole[pair] + (2 * 6 * 4 if cast == "fp16" else 0)  # a scale for each of up to 6 messages
        assert sent * 2 >= whole[pair]


@pytest.mark.parametrize("cast", ["bf16", "fp16"])
def test_in_16_bits_gradients_weigh_half_and_a_servers_values_travel_whole(model_bytes, cast):
    session = session_on("dense", "SGD", FOUR_WORKERS)
    crossing = _bytes_crossing(_step(session, ParameterServer("node0/cpu:2", compressor=Cast(cast))))
    scales = 4 * len(session.model.variables) if cast == "fp16" else 0
    assert crossing == {
        pair: sent
        for each in (0, 1, 3)
        for pair, sent in (((2, each), model_bytes), ((each, 2), model_bytes // 2 + scales))
    }


def test_a_server_sends_every_value_to_each_other_replica_and_gets_every_gradient(model_bytes):
    step = _step(session_on("dense", "SGD", FOUR_WORKERS), ParameterServer("node0/cpu:2"))
    others = {pair for replica in (0, 1, 3) for pair in ((2, replica), (replica, 2))}
    assert _bytes_crossing(step) == dict.fromkeys(others, model_bytes)


def test_with_local_copies_values_and_gradients_cross_to_another_node_once(model_bytes):
    session = session_on("dense", "SGD", TWO_BY_TWO)
    on_home, to_node, within_node = ((0, 1), (1, 0)), ((0, 2), (2, 0)), ((2, 3), (3, 2))
    copied = _bytes_crossing(_step(session, ParameterServer("node0/cpu:0", local_copy=True)))
    assert copied == dict.fromkeys((*on_home, *to_node, *within_node), model_bytes)
    plain = _bytes_crossing(_step(session, ParameterServer("node0/cpu:0")))
    # values go straight to each replica; gradients are still added up on the node first
    assert plain == dict.fromkeys((*on_home, *to_node, (0, 3), (3, 2)), model_bytes)


@pytest.mark.parametrize("synchronizer", [ParameterServer("node0/cpu:1"), AllReduce(0)])
def test_a_sparse_table_never_travels_whole(synchronizer):
    session = session_on("two inputs", "Adam", FOUR_WORKERS)
    rows, width = session.model.by_name["embedding/embeddings"].shape
    crossing = [tensor for _, _, tensor in _crossing(_step(session, synchronizer))]
    assert any(tensor.shape.rank == 2 and tensor.shape[-1] == width for tensor in crossing)
    assert not [
        each for each in crossing if each.shape.is_fully_defined() and each.shape.num_elements() >= rows * width
    ]


def test_a_bucket_holds_its_shards_in_the_order_their_gradients_become_ready():
    session = session_on("dense", "SGD", FOUR_WORKERS)
    assert session.model.by_name["dense_2/bias"].ready_order < session.model.by_name["dense/kernel"].ready_order
    step = _step(session, AllReduce(0))
    assert [shard.variable.ready_order for shard in step.placed.buckets[0].shards] == list(
        range(len(session.model.variables))
    )

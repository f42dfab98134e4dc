"""The tensors that cross between devices in a traced step. `contracts/test_traffic.py` compares their bytes with the
prediction.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
import tensorflow as tf

from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.spec import PLACED_ALGORITHMS, AllReduce, Cast, ParameterServer, Strategy, VariableStrategy
from tests.cases import local_cluster, star_cluster
from tests.contracts.parity import session_on

FOUR_WORKERS = local_cluster(4)
TWO_BY_TWO = star_cluster(nodes=2, workers=2)


def _crossing(step: SynchronousStep) -> list[tuple[int, int, Any]]:
    """List every float tensor that one device makes and another reads, once a reader, without the replicas' losses."""
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


def bytes_crossing(step: SynchronousStep) -> dict[tuple[int, int], int]:
    """Bytes by (source, target) device."""
    sizes: dict[tuple[int, int], int] = defaultdict(int)
    for source, target, tensor in _crossing(step):
        sizes[source, target] += tensor.shape.num_elements() * tensor.dtype.size
    return dict(sizes)


def _step(session: TensorFlowSession, synchronizer: Any) -> SynchronousStep:
    replicas = tuple(str(device) for device in session.cluster.replica_devices)
    variables = tuple(VariableStrategy(variable.name, (synchronizer,)) for variable in session.model.variables)
    return session.realize(Strategy(replicas, variables))


@pytest.fixture(scope="module")
def model_bytes():
    return sum(variable.bytes for variable in session_on("dense", "SGD", FOUR_WORKERS).model.variables)


@pytest.mark.parametrize("cast", ["bf16", "fp16"])
@pytest.mark.parametrize("algorithm", PLACED_ALGORITHMS)
def test_in_16_bits_half_the_bytes_of_every_all_reduce_cross(algorithm, cast):
    session = session_on("dense", "SGD", TWO_BY_TWO)
    whole = bytes_crossing(_step(session, AllReduce(0, algorithm)))
    rounded = bytes_crossing(_step(session, AllReduce(0, algorithm, Cast(cast))))
    assert set(rounded) == set(whole)
    for pair, sent in rounded.items():
        assert sent * 2 <= whole[pair] + (2 * 6 * 4 if cast == "fp16" else 0)  # a scale for each of up to 6 messages
        assert sent * 2 >= whole[pair]


@pytest.mark.parametrize("cast", ["bf16", "fp16"])
def test_in_16_bits_gradients_weigh_half_and_a_servers_values_travel_whole(model_bytes, cast):
    session = session_on("dense", "SGD", FOUR_WORKERS)
    crossing = bytes_crossing(_step(session, ParameterServer("node0/cpu:2", compressor=Cast(cast))))
    scales = 4 * len(session.model.variables) if cast == "fp16" else 0
    assert crossing == {
        pair: sent
        for replica in (0, 1, 3)
        for pair, sent in (((2, replica), model_bytes), ((replica, 2), model_bytes // 2 + scales))
    }


@pytest.mark.parametrize("synchronizer", [ParameterServer("node0/cpu:1"), AllReduce(0)])
def test_a_sparse_table_never_travels_whole(synchronizer):
    session = session_on("two inputs", "Adam", FOUR_WORKERS)
    rows, width = session.model.by_name["embedding/embeddings"].shape
    crossing = [tensor for _, _, tensor in _crossing(_step(session, synchronizer))]
    assert any(tensor.shape.rank == 2 and tensor.shape[-1] == width for tensor in crossing)
    assert not [
        tensor for tensor in crossing if tensor.shape.is_fully_defined() and tensor.shape.num_elements() >= rows * width
    ]


def test_a_bucket_holds_its_shards_in_the_order_their_gradients_become_ready():
    session = session_on("dense", "SGD", FOUR_WORKERS)
    assert session.model.by_name["dense_2/bias"].ready_order < session.model.by_name["dense/kernel"].ready_order
    step = _step(session, AllReduce(0))
    assert [shard.variable.ready_order for shard in step.placed.buckets[0].shards] == list(
        range(len(session.model.variables))
    )

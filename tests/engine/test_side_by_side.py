"""Independent operations are not ordered: buckets, and replicas' reads and passes, wait only for their own inputs."""

from __future__ import annotations

import threading
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.engine.tensorflow.training.feed import Feed, offer_function
from autosync.spec import AllReduce, Strategy, TopK, VariableStrategy
from tests.cases import local_cluster
from tests.contracts.parity import session_on
from tests.contracts.ways import ALONE

THREE_WORKERS, TWO_WORKERS = local_cluster(3), local_cluster(2)
PATIENCE_SECONDS = 20.0


def _bucket_a_variable(session: TensorFlowSession, indices: str) -> SynchronousStep:
    """A step in which a replica chooses the indices of every variable, with one bucket a variable."""
    replicas = tuple(str(device) for device in session.cluster.replica_devices)
    variables = tuple(
        VariableStrategy(variable.name, (AllReduce(number, compressor=TopK(0.3, indices)),))
        for number, variable in enumerate(session.model.variables)
    )
    return session.realize(Strategy(replicas, variables))


def _behind_others(graph: tf.Graph, kinds: tuple[str, ...]) -> tuple[int, list[tuple[str, str]]]:
    """Count the operations of `kinds` in a graph, and list all pairs of them whose second comes after the first."""
    before: dict[str, set[str]] = {}
    pairs = []
    for operation in _inputs_first(graph):
        earlier_ones: set[str] = set()
        for source in [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]:
            earlier_ones |= before[source.name] | ({source.name} if source.type in kinds else set())
        before[operation.name] = earlier_ones
        if operation.type in kinds:
            pairs += [(earlier, operation.name) for earlier in sorted(earlier_ones)]
    return sum(operation.type in kinds for operation in graph.get_operations()), pairs


def _inputs_first(graph: tf.Graph) -> list[tf.Operation]:
    """Sort operations, inputs first. The order of creation is not enough, because control inputs are added later."""
    done: dict[str, tf.Operation] = {}
    waiting = list(reversed(graph.get_operations()))
    while waiting:
        operation = waiting[-1]
        needed = [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
        missing = [source for source in needed if source.name not in done]
        waiting += missing
        if not missing:
            done.setdefault(waiting.pop().name, operation)
    return list(done.values())


def _graph(step: SynchronousStep) -> tf.Graph:
    return step._own_batches.get_concrete_function().graph


@pytest.mark.parametrize("indices", ["star", "var"])
def test_no_bucket_waits_for_another_to_be_broadcast(indices):
    step = _bucket_a_variable(session_on("dense", "SGD", THREE_WORKERS), indices)
    count, behind = _behind_others(_graph(step), ("Merge",))
    assert count == 3 * len(step.strategy.variables) > 3
    assert behind == []
    assert all(not operation.control_inputs for operation in _graph(step).get_operations() if operation.type == "Merge")


def test_broadcasts_in_a_row_would_be_found_and_give_the_same_bits(monkeypatch):
    session = session_on("dense", "momentum", THREE_WORKERS)
    side_by_side = _bucket_a_variable(session, "star")
    losses = [side_by_side() for _ in range(4)]
    monkeypatch.setattr("autosync.engine.tensorflow.sync.dynamic_broadcast.run_independently", lambda _: None)
    in_a_row = _bucket_a_variable(session, "star")
    count, behind = _behind_others(_graph(in_a_row), ("Merge",))
    assert len(behind) == count * (count - 1) // 2
    assert [in_a_row() for _ in range(4)] == losses
    for parallel, ordered in zip(side_by_side.values(1).values(), in_a_row.values(1).values(), strict=True):
        np.testing.assert_array_equal(parallel, ordered)


def _feed(reads: list[Any]) -> Feed:
    return Feed(
        [f"/CPU:{number}" for number in range(len(reads))], [offer_function(read) for read in reads], [((), "int32")]
    )


def test_no_replica_reads_after_another():
    reads = [lambda number=number: [np.int64(1), np.full(1, number, np.int32)] for number in range(3)]
    feed = _feed(reads)
    assert _behind_others(feed._function.get_concrete_function().graph, ("PyFunc",)) == (3, [])
    batches, counts = feed.next()
    assert [batch[0].numpy().tolist() for batch in batches] == [[0], [1], [2]]
    assert counts == [1, 1, 1]


def test_a_replica_that_waits_for_its_data_does_not_keep_the_others_from_reading():
    meeting = threading.Barrier(2)

    def read() -> list[Any]:
        meeting.wait(PATIENCE_SECONDS)  # raises if the second reader has not begun by then
        return [np.int64(1), np.zeros(1, np.int32)]

    assert _feed([read, read]).next()[1] == [1, 1]


def test_replicas_whose_model_draws_random_numbers_in_its_own_way_compute_side_by_side():
    features = keras.Input(batch_shape=(2, 3))
    noisy = keras.layers.Lambda(lambda each: each + tf.random.normal([2, 3]))(features)
    task = TrainingTask(
        "noisy",
        keras.Model(features, keras.layers.Dense(1)(noisy)),
        lambda _, outputs: tf.reduce_mean(outputs**2),
        keras.optimizers.SGD(0.1),
        2,
        lambda seed: (tf.ones([2, 3]) * tf.cast(seed[1] + 1, tf.float32), tf.zeros([2])),
    )
    session = TensorFlowSession(capture(task), TWO_WORKERS, Placement.in_one_process(TWO_WORKERS))
    step = session.realize(ALONE["one ring"](session.model, TWO_WORKERS))
    assert _behind_others(_graph(step), ("StatefulPartitionedCall",)) == (2, [])
    assert np.isfinite(step())

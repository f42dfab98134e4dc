"""Sufficient factors: the gradients that have them, and that steps send factors instead of the product."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.capture.sufficient_factors import sufficient_factors
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.engine.tensorflow.sync.exchange import FactorPair
from autosync.spec import AllReduce, ParameterServer, Strategy, SufficientFactors, Synchronizer, VariableStrategy
from tests.cases import local_cluster, star_cluster
from tests.contracts.parity import captured_task, reference, session_on, trained_alike
from tests.contracts.tasks import BATCH_SIZE, build

THREE, TWO_BY_TWO = local_cluster(3), star_cluster(nodes=2, workers=2)
TASKS = ("dense", "table", "sequence", "two dtypes")


def _rows(captured: CapturedModel) -> dict[str, int | None]:
    return {variable.name: variable.factor_rows for variable in captured.spec.variables if len(variable.shape) == 2}


class TestFactorsAreFound:
    def test_for_dense_layers_with_a_row_for_every_example(self):
        found = _rows(captured_task("dense", "SGD"))
        assert found == dict.fromkeys(["dense/kernel", "dense_1/kernel", "dense_2/kernel"], BATCH_SIZE)

    def test_for_matrices_multiplied_with_every_step_of_a_sequence_with_a_row_for_each(self):
        found = _rows(captured_task("sequence", "SGD"))
        assert found.pop("dense_1/kernel") == BATCH_SIZE
        assert len(found) == 4
        assert set(found.values()) == {4 * BATCH_SIZE}

    @pytest.mark.parametrize(
        ("task", "name"),
        [
            ("regularized", "dense/kernel"),
            ("tied", "__tied/table"),
            ("recurrent", "simple_rnn/simple_rnn_cell/kernel"),
            ("table", "embedding/embeddings"),
        ],
    )
    def test_not_for_a_gradient_that_is_no_single_product(self, task, name):
        assert _rows(captured_task(task, "SGD"))[name] is None

    def test_not_where_the_number_of_examples_may_differ(self):
        task = replace(build("dense", keras.optimizers.SGD(0.1)), any_batch_size=True)
        assert set(_rows(capture(task)).values()) == {None}

    def test_not_for_a_gradient_that_is_cast(self):
        features = keras.Input(batch_shape=(4, 6))
        model = keras.Model(features, keras.layers.Dense(3, dtype="mixed_bfloat16")(features))
        task = TrainingTask(
            "mixed",
            model,
            lambda y, z: tf.reduce_mean(tf.square(y - tf.cast(z, tf.float32))),
            keras.optimizers.SGD(0.1),
            4,
            lambda seed: (tf.random.stateless_normal((4, 6), seed), tf.random.stateless_normal((4, 3), seed + 1)),
        )
        assert set(_rows(capture(task)).values()) == {None}

    @pytest.mark.parametrize(
        ("equation", "left", "right"),
        [
            ("abm,abn->mn", (2, 3, 5), (2, 3, 7)),
            ("anb,bma->mn", (2, 7, 3), (3, 5, 2)),
            ("mk,kn->mn", (5, 4), (4, 7)),
        ],
    )
    def test_of_sums_over_any_indices(self, equation, left, right):
        tensors = [tf.random.stateless_normal(shape, (number, 0)) for number, shape in enumerate((left, right))]

        @tf.function(autograph=False)
        def found(x: Any, y: Any) -> Any:
            product = tf.raw_ops.Einsum(inputs=[x, y], equation=equation)
            return product, *(sufficient_factors(product, (5, 7)) or ())

        product, a, b = found(*tensors)
        np.testing.assert_allclose(tf.matmul(a, b, transpose_a=True), product, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("equation", ["am,an->nm", "kmn,k->mn", "kn,km->mn"])
    def test_or_the_transposed_ones_or_none(self, equation):
        shapes = {"am,an->nm": ((4, 7), (4, 5)), "kmn,k->mn": ((4, 5, 7), (4,)), "kn,km->mn": ((4, 7), (4, 5))}

        @tf.function(autograph=False)
        def found(x: Any, y: Any) -> Any:
            product = tf.raw_ops.Einsum(inputs=[x, y], equation=equation)
            return product, *(sufficient_factors(product, (5, 7)) or ())

        product, *pair = found(*(tf.random.stateless_normal(shape, (1, 2)) for shape in shapes[equation]))
        assert bool(pair) == (equation != "kmn,k->mn")
        if pair:
            np.testing.assert_allclose(tf.matmul(*pair, transpose_a=True), product, rtol=1e-5, atol=1e-5)


def _strategy(session: Any, synchronizer: Synchronizer) -> Strategy:
    """Sufficient factors for all variables that have them, with a bucket for each dtype; the rest in whole buckets."""

    def decided(number: int, variable: Any) -> VariableStrategy:
        group = 10 * (variable.dtype == "float64") + (number % 2)
        if variable.factor_rows is None:
            return VariableStrategy(variable.name, (AllReduce(100 + group),))
        if isinstance(synchronizer, AllReduce):
            return VariableStrategy(variable.name, (replace(synchronizer, group=group),))
        return VariableStrategy(variable.name, (synchronizer,))

    replicas = tuple(str(device) for device in session.cluster.replica_devices)
    return Strategy(replicas, tuple(decided(*variable) for variable in enumerate(session.model.variables)))


SYNCHRONIZERS = {
    "all to all": AllReduce(0, compressor=SufficientFactors()),
    "to a server": ParameterServer("node0/cpu:1", compressor=SufficientFactors()),
}


@pytest.mark.quick("all to all-table", "to a server-dense")
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("way", SYNCHRONIZERS)
def test_training_is_that_of_one_process(way, task):
    session = session_on(task, "momentum", TWO_BY_TWO)
    step = session.realize(_strategy(session, SYNCHRONIZERS[way]))
    assert any(replica.factored for replica in step.placed.replicas)
    trained_alike(step, reference(task, "momentum", 4), 1e-5)


@pytest.mark.quick("clipped")
@pytest.mark.parametrize("optimizer", ["clipped", "dynamically scaled"])
def test_rules_over_all_gradients_hold_too(optimizer):
    session = session_on("dense", optimizer, THREE)
    step = session.realize(_strategy(session, SYNCHRONIZERS["all to all"]))
    trained_alike(step, reference("dense", optimizer, 3), 1e-5)


def test_replicas_whose_batches_count_differently_are_weighed():
    session = session_on("dense", "SGD", THREE)
    batches = reference("dense", "SGD", 3).batches[0]
    steps = [
        session.realize(_strategy(session, synchronizer)) for synchronizer in (AllReduce(0), *SYNCHRONIZERS.values())
    ]
    for step in steps:
        step.on(batches, (0.5, 2.0, 0.5))
    for name, value in steps[0].values().items():
        for step in steps[1:]:
            np.testing.assert_allclose(step.values()[name], value, rtol=1e-5, atol=1e-6)


def test_a_captured_model_keeps_its_factors_in_its_file():
    captured = captured_task("sequence", "SGD")
    assert CapturedModel.from_bytes(captured.to_bytes()).factors == captured.factors
    assert len(captured.factors) == 5


def test_the_product_itself_is_not_computed_where_factors_are_sent():
    captured = captured_task("dense", "SGD")
    numbers = sorted(captured.factors)
    products = [captured.gradient.outputs[1 + number] for number in numbers]
    graph = tf.compat.v1.GraphDef.FromString(captured.gradient.graph)

    def needed(outputs: tuple[str, ...]) -> set[str]:
        names = [output.split(":")[0] for output in outputs]
        return {node.name for node in tf.compat.v1.graph_util.extract_sub_graph(graph, names).node}

    with_factors = needed(captured.gradient_with(numbers).outputs)
    assert not {product.split(":")[0] for product in products} & with_factors
    assert len(with_factors) < len(needed(captured.gradient.outputs))


def test_factors_meet_as_one_product():
    from autosync.engine.tensorflow.sync import factors

    pairs = [
        FactorPair(tf.random.stateless_normal((4, 3), (replica, 0)), tf.random.stateless_normal((4, 2), (replica, 1)))
        for replica in range(3)
    ]
    expected = np.mean([pair.left.numpy().T @ pair.right.numpy() for pair in pairs], axis=0)
    np.testing.assert_allclose(factors._mean("/CPU:0", pairs), np.ravel(expected), rtol=1e-5, atol=1e-6)

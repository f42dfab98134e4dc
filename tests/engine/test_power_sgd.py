"""The parts of PowerSGD: orthonormal columns, warm starts, gradients that factor exactly or not at all."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.core.right_factor import first_right_factor
from autosync.engine.tensorflow.sync.member import Member
from autosync.engine.tensorflow.sync.orthonormal import orthonormal
from autosync.layout.shards import Slice
from autosync.spec import PowerSGD, Variable
from tests.engine.exchanges import BucketSteps, ServerSteps


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class TestOrthonormalColumns:
    @pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
    def test_of_any_size_span_the_same_space(self, scale):
        matrix = _random(50, 4)
        columns = orthonormal(tf.constant(matrix * np.float32(scale)), [50]).numpy()
        np.testing.assert_allclose(columns.T @ columns, np.eye(4), atol=1e-6)
        np.testing.assert_allclose(columns @ (columns.T @ matrix), matrix, atol=1e-5)

    def test_of_nearly_parallel_ones_are_orthogonal_still(self):
        first = _random(60, 1)
        matrix = np.concatenate([first, first + 1e-3 * _random(60, 1, seed=1)], 1)
        columns = orthonormal(tf.constant(matrix), [60]).numpy()
        np.testing.assert_allclose(columns.T @ columns, np.eye(2), atol=1e-6)

    def test_of_several_matrices_are_those_of_each_to_the_bit(self):
        first, second = _random(17, 3), 100 * _random(5, 3, seed=1)
        together = orthonormal(tf.constant(np.concatenate([first, second])), [17, 5]).numpy()
        for ours, alone in ((together[:17], first), (together[17:], second)):
            np.testing.assert_array_equal(ours, orthonormal(tf.constant(alone), [len(alone)]).numpy())

    def test_are_zero_where_a_column_depends_on_those_before_it(self):
        first, second = _random(9, 1), _random(9, 1, seed=1)
        matrix = np.concatenate([first, 3 * first, np.zeros_like(first), second, first - second], 1)
        columns = orthonormal(tf.constant(matrix), [9]).numpy()
        np.testing.assert_allclose(np.diag(columns.T @ columns), [1, 0, 0, 1, 0], atol=1e-6)

    def test_of_no_number_are_no_numbers(self):
        matrix = _random(6, 2)
        matrix[3, 0] = np.nan
        assert np.isnan(orthonormal(tf.constant(matrix), [6]).numpy()).any(axis=0).all()


def test_columns_are_made_orthonormal_on_the_cpu_beside_a_gpu():
    assert Member("/job:worker/task:1/device:GPU:0", "b", "/job:worker/task:1/device:CPU:0").host.endswith("CPU:0")
    assert Member("/CPU:3", "a", "/CPU:2").host == "/CPU:3"


def _low_rank(rank: int, replicas: int) -> list[np.ndarray]:
    """Matrices (12, 10) whose mean has `rank`."""
    left = _random(12, rank)
    return [left @ _random(rank, 10, seed=1 + replica) for replica in range(replicas)]


def test_a_mean_of_no_higher_rank_arrives_exactly_and_nothing_is_left_to_send():
    gradients = _low_rank(2, 3)
    step = BucketSteps(PowerSGD(2), [(12, 10)], 3)
    means = step([[gradient] for gradient in gradients])
    np.testing.assert_allclose(means[0].reshape(12, 10), np.mean(gradients, axis=0), atol=1e-5)
    np.testing.assert_allclose(sum(step.remembered()[:3]), 0, atol=1e-5)


def test_a_server_gets_it_exactly_too():
    gradients = _low_rank(2, 3)
    mean = ServerSteps(PowerSGD(2), (12, 10), 3)(gradients)
    np.testing.assert_allclose(mean.reshape(12, 10), np.mean(gradients, axis=0), atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2])
def test_all_of_a_gradient_has_arrived_when_it_is_given_once_and_then_zeros(rank):
    gradient = _random(8, 6)
    step = BucketSteps(PowerSGD(rank), [(8, 6)], 2)
    arrived = step([[gradient], [gradient]])[0]
    for _ in range(40):
        arrived = arrived + step([[0 * gradient], [0 * gradient]])[0]
    np.testing.assert_allclose(arrived.reshape(8, 6), gradient, atol=1e-3)


@pytest.mark.parametrize("rank", [1, 2])
def test_zero_gradients_do_not_end_the_warm_start(rank):
    step = BucketSteps(PowerSGD(rank), [(12, 10)], 2)
    assert not step([[np.zeros((12, 10), np.float32)]] * 2)[0].any()
    gradients = _low_rank(rank, 2)
    means = step([[gradient] for gradient in gradients])
    np.testing.assert_allclose(means[0].reshape(12, 10), np.mean(gradients, axis=0), atol=1e-5)


def test_vectors_scalars_and_small_matrices_travel_whole_beside_the_factors():
    shapes = [(), (12, 10), (5,), (2, 2), (3, 4, 10)]
    gradients = [[_random(*shape, seed=replica) for shape in shapes] for replica in range(3)]
    means = BucketSteps(PowerSGD(2), shapes, 3)([list(gradient) for gradient in gradients])
    assert len({mean.tobytes() for mean in means}) == 1
    scalar, _, vector, small, _ = np.split(means[0], np.cumsum([1, 120, 5, 4]))
    for part, number in ((scalar, 0), (vector, 2), (small, 3)):
        expected = np.mean([np.ravel(gradient[number]) for gradient in gradients], axis=0)
        np.testing.assert_allclose(part, expected, rtol=1e-5, atol=1e-6)


def test_a_number_that_is_not_finite_reaches_all_and_a_step_that_is_not_allowed_leaves_no_trace():
    step = BucketSteps(PowerSGD(1), [(4, 5)], 2)
    step([[_random(4, 5)], [_random(4, 5, seed=1)]])
    before, bad = step.remembered(), _random(4, 5)
    bad[2, 2] = np.inf
    for mean in step([[bad], [_random(4, 5)]], allowed=False):
        assert not np.isfinite(mean).all()
    for ours, theirs in zip(step.remembered(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_factor_starts_with_numbers_of_its_shard_own():
    def start(name: str, index: int) -> np.ndarray:
        variable = Variable(name, (40, 30), "float64", 0)
        return first_right_factor(Slice(variable, 0, index, 0, 0, 20), PowerSGD(2))

    assert start("kernel", 0).shape == (30, 2)
    assert start("kernel", 0).dtype == np.float64
    np.testing.assert_array_equal(start("kernel", 0), start("kernel", 0))
    assert len({start(*arguments).tobytes() for arguments in (("kernel", 0), ("kernel", 1), ("other", 0))}) == 3

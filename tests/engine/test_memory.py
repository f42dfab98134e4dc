"""The memory of compressors during training with a dynamic loss scale."""

from __future__ import annotations

from functools import cache

import keras
import numpy as np
import pytest

from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from tests.cases import local_cluster
from tests.contracts.parity import reference, session_on
from tests.contracts.tasks import build
from tests.contracts.ways import COMPRESSED

THREE = local_cluster(3)
WAYS = ("top-k, own", "top-k, star, ring", "PowerSGD, tree", "PowerSGD, servers")


def _plain(way: str) -> SynchronousStep:
    session = session_on("dense", "momentum", THREE)
    return session.realize(COMPRESSED[way](session.model, THREE))


@cache
def _session() -> TensorFlowSession:
    """A session of the same training with a loss scale that doubles every second step."""
    momentum = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer = keras.optimizers.LossScaleOptimizer(momentum, initial_scale=4.0, dynamic_growth_steps=2)
    return TensorFlowSession(capture(build("dense", optimizer)), THREE, Placement.in_one_process(THREE))


def _scaled(way: str) -> SynchronousStep:
    return _session().realize(COMPRESSED[way](_session().model, THREE))


@pytest.mark.quick("top-k, own", "PowerSGD, servers")
@pytest.mark.parametrize("way", WAYS)
def test_a_loss_scale_that_grows_on_the_way_changes_no_number(way):
    """All scales are powers of two, so that even roundings are equal, except for the square roots of PowerSGD."""
    scaled, plain = _scaled(way), _plain(way)
    losses = [(scaled(), plain()) for _ in range(6)]
    np.testing.assert_allclose(*zip(*losses, strict=True), rtol=1e-5)
    for name, value in plain.values().items():
        np.testing.assert_allclose(scaled.values()[name], value, rtol=0, atol=1e-5 * np.abs(value).max())


@pytest.mark.quick("top-k, star, ring", "PowerSGD, tree")
@pytest.mark.parametrize("way", WAYS)
def test_a_step_left_out_because_a_gradient_was_not_finite_is_not_remembered(way):
    scaled, plain = _scaled(way), _plain(way)
    good = reference("dense", "momentum", 3).batches
    bad = [good[0][0], tuple(array * np.inf for array in good[0][1]), good[0][2]]
    for batches in (*good[:2], bad, bad, *good[2:]):
        scaled.on(batches)
    for batches in good:
        plain.on(batches)
    for name, value in plain.values().items():
        np.testing.assert_allclose(scaled.values()[name], value, rtol=0, atol=1e-5 * np.abs(value).max())

"""The staleness contract: staleness 0 changes nothing, and no replica runs further ahead than the staleness."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from autosync.engine.tensorflow.step.placed_model import Placed
from autosync.engine.tensorflow.step.stale import StaleStep
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, ModelSpec, Strategy
from tests.cases import local_cluster, star_cluster
from tests.contracts.parity import BOUNDS, reference, session_on, trained_alike
from tests.contracts.ways import ALONE

FOUR_WORKERS = local_cluster(4)
TWO_BY_TWO = star_cluster(nodes=2, workers=2)


def _stale(model: ModelSpec, cluster: ClusterSpec, way: str, staleness: int) -> Strategy:
    strategy = ALONE[way](model, cluster)
    return replace(
        strategy,
        variables=tuple(
            replace(variable, shards=tuple(replace(s, staleness=staleness, local_copy=False) for s in variable.shards))
            for variable in strategy.variables
        ),
    )


def _step(task, optimizer, cluster, way, staleness, pause=None):
    """A stale step for any staleness, including 0, and a synchronous step."""
    session = session_on(task, optimizer, cluster)
    synchronous = session.realize(_stale(session.model, cluster, way, 0))
    assert isinstance(synchronous, SynchronousStep)
    strategy = _stale(session.model, cluster, way, staleness)
    placed = Placed(session._model, session._optimizers, strategy, session.placement, session._start)
    return StaleStep(session._model, placed, pause), synchronous


@pytest.mark.quick("servers, four workers")
@pytest.mark.parametrize(
    ("way", "optimizer", "cluster"),
    [("one server", "Adam", TWO_BY_TWO), ("servers, first axis cut", "momentum", FOUR_WORKERS)],
    ids=["one server, two nodes of two", "servers, four workers"],
)
def test_with_staleness_0_every_byte_is_that_of_a_synchronous_step(way, optimizer, cluster):
    stale, synchronous = _step("pooled", optimizer, cluster, way, 0)
    for batches in reference("pooled", optimizer, 4).batches:
        stale.on(batches)
        synchronous.on(batches)
    for name, value in synchronous.values().items():
        assert stale.values()[name].tobytes() == value.tobytes()
    assert set(stale.lags) == {0}
    stale.close()


@pytest.mark.quick("1")
@pytest.mark.parametrize("staleness", [1, 3])
def test_the_histogram_of_lags_never_exceeds_the_staleness(staleness):
    def pause(replica: int, step: int) -> None:
        if replica == 2 and step % 4 == 0:
            time.sleep(0.15)

    stale, _ = _step("pooled", "SGD", FOUR_WORKERS, "servers, first axis cut", staleness, pause)
    for _ in range(16):
        assert np.isfinite(stale())
    values = stale.values()
    assert sum(stale.lags.values()) == 4 * 16
    assert max(stale.lags) == staleness, "fast replicas did run ahead, and no further"
    assert all(np.isfinite(value).all() for value in values.values())
    stale.close()


def test_one_replica_is_never_ahead_of_itself_and_trains_like_one_process():
    session = session_on("pooled", "momentum", local_cluster(1))
    stale = session.realize(_stale(session.model, local_cluster(1), "one server", 2))
    assert isinstance(stale, StaleStep)
    expected = reference("pooled", "momentum", 1)
    for batches in expected.batches:
        stale.on(batches)
        stale.values()  # waits, so that each step sees the previous one
    trained_alike(stale, replace(expected, batches=(), losses=()), BOUNDS["momentum"])
    stale.close()


def test_what_makes_a_replica_fail_is_raised_to_the_caller():
    def pause(replica: int, step: int) -> None:
        if (replica, step) == (1, 2):
            raise RuntimeError("replica 1 is gone")

    stale, _ = _step("dense", "SGD", FOUR_WORKERS, "one server", 1, pause)
    for _ in range(2):
        stale()
    with pytest.raises(RuntimeError, match="replica 1 is gone"):
        [stale() for _ in range(6)]
    stale.close()


def test_loss_scaling_is_refused_with_staleness():
    session = session_on("pooled", "scaled", FOUR_WORKERS)
    with pytest.raises(SpecError, match=r"Loss scaling needs steps that wait for all replicas"):
        session.realize(_stale(session.model, FOUR_WORKERS, "one server", 1))

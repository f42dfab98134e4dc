"""The contract of compressed gradients: a run ends where plain NumPy models of the same algorithms end."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.engine.tensorflow.sync.memory import ErrorFeedback
from autosync.spec import ClusterSpec
from tests.cases import local_cluster, star_cluster
from tests.contracts.compressed_training import Run, compressed_reference
from tests.contracts.parity import Reference, session_on, trained_alike
from tests.contracts.ways import COMPRESSED
from tests.cover import crossed

BOUND = 1e-5
"""Largest max|a - b| / max|b| of any variable at the end of a run in float32.

Top-k does not amplify rounding errors, unless one decides which element is the k-th largest. PowerSGD's error feedback
amplifies them, rank 1 fastest: a hundredfold in twenty steps, each time that the unsent rest makes another direction
the largest. PowerSGD is therefore compared over eight steps in float32, and over twenty steps in float64.
"""
EXACT = 1e-10
"""The same in float64."""

ONE, THREE = local_cluster(1), local_cluster(3)
CLUSTERS = {"three": THREE, "two by two": star_cluster(nodes=2, workers=2)}


def _started(way: str, run: Run, cluster: ClusterSpec) -> tuple[SynchronousStep, Reference]:
    """A strategy at its start, and the values at which it must end."""
    session = session_on(run.task, run.optimizer, cluster)
    strategy = COMPRESSED[way](session.model, cluster)
    return session.realize(strategy), compressed_reference(run, session.model, strategy)


@pytest.mark.quick(
    "top-k, own-three", "top-k, star, ring*", "top-k, var, ring*", "PowerSGD, ring*", "PowerSGD, servers-*"
)
@pytest.mark.parametrize(("way", "cluster"), crossed(COMPRESSED, CLUSTERS))
def test_twenty_steps_train_like_the_algorithm_in_numpy(way, cluster, tally):
    run = Run("double", "momentum" if cluster == "three" else "SGD")
    parity = trained_alike(*_started(way, run, CLUSTERS[cluster]), BOUND)  # the bound for the losses, which are float32
    assert parity.worst_error <= EXACT
    tally(f"{way.split(',')[0]} (float64)", parity.worst_error)


@pytest.mark.quick("top-k, own", "PowerSGD, ring")
@pytest.mark.parametrize("way", COMPRESSED)
def test_one_replica_alone_does_too(way, tally):
    run = Run("dense", "momentum", steps=8 if "PowerSGD" in way else 20)
    tally(f"{way.split(',')[0]}", trained_alike(*_started(way, run, ONE), BOUND).worst_error)


@pytest.mark.parametrize("way", ["top-k, own", "top-k, var, tree", "PowerSGD, ring", "PowerSGD, servers"])
def test_replicas_whose_batches_count_differently_are_weighed(way):
    run = Run("two dtypes", "SGD", steps=4, weights=(0.6, 1.8, 0.6))
    step, expected = _started(way, run, THREE)
    losses = [step.on(batches, run.weights) for batches in expected.batches]
    np.testing.assert_allclose(losses, expected.losses, rtol=BOUND)
    for name, value in step.values().items():
        np.testing.assert_allclose(value, expected.values[name], rtol=0, atol=BOUND * np.abs(value).max())


@pytest.mark.quick("top-k*")
@pytest.mark.parametrize("way", ["top-k, star, ring", "PowerSGD, servers"])
def test_a_run_goes_on_from_a_saved_state_as_if_never_stopped(way):
    session = session_on("dense", "momentum", THREE)
    first, second, whole = (session.realize(COMPRESSED[way](session.model, THREE)) for _ in range(3))
    for _ in range(4):
        first()
    second.load(first.state())
    for _ in range(4):
        second()
    for _ in range(8):
        whole()
    for name, value in whole.values().items():
        np.testing.assert_array_equal(second.values()[name], value)
    for ours, theirs in zip(second.state().synchronizer_state, whole.state().synchronizer_state, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("way", ["top-k, var, tree", "PowerSGD, servers"])
def test_the_contract_refuses_to_forget_what_was_not_sent(way, monkeypatch):
    add_unsent = ErrorFeedback.add_unsent
    monkeypatch.setattr(
        ErrorFeedback, "add_unsent", lambda self, gradients: add_unsent(self, gradients) and list(gradients)
    )
    with pytest.raises(AssertionError, match=r"Loss 2 is .*, but in one process"):
        trained_alike(*_started(way, Run("dense", "SGD", steps=4), THREE), BOUND)

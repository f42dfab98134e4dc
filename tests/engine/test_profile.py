"""Profiles of steps, for every kind of model, with figures that a replay can use."""

from __future__ import annotations

import pytest

from autosync.engine.tensorflow.capture.profile import profile, profile_step
from autosync.spec import ModelSpec, canonical_json, parse_json
from tests.contracts.parity import captured_task


@pytest.mark.parametrize("task", ["pooled", "table", "two inputs", "recurrent", "convolution"])
def test_a_profile_says_what_both_passes_take_and_when_every_gradient_is_there(task):
    captured = captured_task(task, "Adam")
    profile = profile_step(captured)
    assert min(profile.forward_seconds, profile.backward_seconds) > 0
    assert set(profile.ready) == {variable.name for variable in captured.spec.variables}
    # The pass ends when its last gradient is ready, and most of its gradients are ready earlier.
    assert max(profile.ready.values()) > 0.8
    assert min(profile.ready.values()) < max(profile.ready.values())


def test_a_profiled_model_is_the_same_model_and_survives_its_bytes():
    captured = captured_task("pooled", "Adam")
    again = profile(captured)
    assert again.spec.digest == captured.spec.digest
    assert again.spec.profile is not None
    assert ModelSpec.from_json(parse_json(canonical_json(again.spec.to_json()), "The model")) == again.spec

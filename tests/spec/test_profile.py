"""The profile of a step on another device: refused values, the models that it fits, and their digests."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosync.errors import SpecError
from autosync.spec import DeviceProfile, ModelProfile, ModelSpec, read_device_profile
from autosync.words.quantities import model_in_words
from tests.cases import mlp_model

MODEL = mlp_model()


def document(model: ModelSpec = MODEL, **changes: Any) -> dict[str, Any]:
    """A profile of `model` whose variables are ready at equal distances, all fields stated."""
    count = len(model.variables)
    return {
        "device": "NVIDIA H100 80GB",
        "versions": {"tensorflow": "2.21.0", "driver": "570.1"},
        "batch_size": model.batch_size,
        "precision": "float32",
        "date": "2026-11-20",
        "forward_seconds": 0.004,
        "backward_seconds": 0.008,
        "ready_seconds": {variable.name: 0.008 * (variable.ready_order + 1) / count for variable in model.variables},
    } | changes


PROFILE = DeviceProfile.from_json(document())


def test_a_profile_is_read_from_its_file_and_says_when_gradients_are_ready(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(document()))
    assert read_device_profile(file) == PROFILE
    assert PROFILE.to_json() == document()
    model = replace(MODEL, device_profile=PROFILE)
    assert ModelSpec.from_json(model.to_json()) == model
    assert model.pace_profile == PROFILE.as_fractions
    assert sorted(PROFILE.as_fractions.ready.values())[-1] == 1.0
    assert (MODEL.pace_profile, "device_profile" in MODEL.to_json()) == (MODEL.profile, False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "must be a JSON object, not list."),
        ('{"device": 1, "device": 2}', "comes twice in one object"),
        (json.dumps(document(forward_seconds=math.nan)), "NaN is not a number in JSON"),
        (json.dumps({key: value for key, value in document().items() if key != "date"}), "needs the field 'date'."),
        (json.dumps(document(colour=1)), "A device profile has the unknown field 'colour'."),
        (json.dumps(document(ready_seconds={"a": "soon"})), "'a' must be float, not 'soon'."),
        ("[" * 100, "must have at most 64 nested brackets, but has 100."),
    ],
)
def test_a_broken_file_is_refused_in_a_sentence(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(text)
    with pytest.raises(SpecError) as refusal:
        read_device_profile(file)
    assert told in str(refusal.value)
    with pytest.raises(SpecError, match="cannot be read: No such file or directory; name a file"):
        read_device_profile(tmp_path / "nosuch.json")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"date": "yesterday"}, "date is a day like 2026-11-20, not 'yesterday'"),
        ({"date": "20261120"}, "date is a day like 2026-11-20, not '20261120'"),
        ({"device": ""}, "device has 1 to 255 characters, not ''"),
        ({"precision": "x" * 256}, "precision has 1 to 255 characters, not 'xxx"),
        ({"versions": {}}, "has the versions of what it was measured with, 1 to 64"),
        ({"versions": {"tensorflow": ""}}, "version of tensorflow has 1 to 255 characters"),
        ({"forward_seconds": 0.0}, "forward pass takes over 0 and up to 3600 seconds, not 0.0"),
        ({"backward_seconds": math.inf}, "backward pass takes over 0 and up to 3600 seconds, not inf"),
        ({"ready_seconds": {"a": 0.009}}, "Variable 'a' is ready from 0 to 0.008 seconds after the backward pass"),
        ({"ready_seconds": {"a": math.nan}}, "Variable 'a' is ready from 0 to 0.008 seconds after the backward pass"),
    ],
)
def test_an_invalid_profile_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError) as refusal:
        DeviceProfile.from_json(document(**changes))
    assert told in str(refusal.value)


def test_a_profile_that_does_not_fit_the_model_is_refused() -> None:
    ready, first = document()["ready_seconds"], MODEL.variables[0].name
    cases = {
        f"batches of {MODEL.batch_size + 1}, and the model takes {MODEL.batch_size};": {
            "batch_size": MODEL.batch_size + 1
        },
        f"does not say when {first!r} is ready;": {"ready_seconds": {k: v for k, v in ready.items() if k != first}},
        "the model has no variable 'other';": {"ready_seconds": ready | {"other": 0.0}},
    }
    for told, changes in cases.items():
        with pytest.raises(SpecError) as refusal:
            replace(MODEL, device_profile=DeviceProfile.from_json(document(**changes)))
        assert str(refusal.value).startswith(f"The profile of 'NVIDIA H100 80GB' does not fit model {MODEL.name!r}: ")
        assert told in str(refusal.value)


def test_a_model_with_another_devices_profile_is_another_model_and_one_profiled_again_here_is_not() -> None:
    later = replace(PROFILE, date="2026-11-21")
    digests = {replace(MODEL, device_profile=profile).digest for profile in (None, PROFILE, later)}
    assert len(digests) == 3
    measured = ModelProfile(0.1, 0.2, PROFILE.as_fractions.ready)
    assert {replace(MODEL, profile=measured, device_profile=PROFILE).digest} < digests


def test_a_model_says_whose_profile_it_follows() -> None:
    told = model_in_words(replace(MODEL, device_profile=PROFILE))
    follows = (
        "paced passes follow a profile of NVIDIA H100 80GB, float32, 2026-11-20 (tensorflow 2.21.0, driver 570.1)."
    )
    assert told.endswith(follows)

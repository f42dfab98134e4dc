"""A client keeps to the profile of an earlier capture of the same model."""

from dataclasses import replace

import pytest

from autosync.spec import KeptProfile
from trials.workers.processes import ClientProcess


def test_a_later_capture_of_the_same_model_keeps_to_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # a client hides all GPUs of its process
    client = ClientProcess("pytorch", ())
    client.capture("mlp", 0)
    model, _ = client.model()
    assert model.profile is not None
    longer = replace(model.profile, forward_seconds=model.profile.forward_seconds + 60)

    client.capture("mlp", 0, kept=KeptProfile(model.digest, longer))
    assert client.model()[0].profile == longer

    client.capture("mlp", 0, kept=KeptProfile("0123456789abcdef", longer))
    measured = client.model()[0].profile
    assert measured is not None
    assert measured.forward_seconds < 60

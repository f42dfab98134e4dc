"""Shipped profiles belong to the models in their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosync.spec.profile import DeviceProfile, read_device_profile
from tests.architecture.source_tree import ROOT

SHIPPED = sorted((ROOT / "runtimes/devices").rglob("*.json"))
CAPTURED = sorted((ROOT / "runtimes/profiles").glob("*.json"))


def test_some_ship() -> None:
    assert len(SHIPPED) > 20
    assert len(CAPTURED) == 5


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_each_was_measured_on_a_gpu(file: Path) -> None:
    profile = read_device_profile(file)
    assert file.parent.name.upper() in profile.device
    assert {"torch", "cuda", "keras"} <= profile.versions.keys()


@pytest.mark.parametrize("captured", CAPTURED, ids=lambda file: file.stem)
def test_each_has_the_variables_of_its_model(captured: Path) -> None:
    variables = json.loads(captured.read_text(encoding="utf-8"))["profile"]["ready"]
    result: list[DeviceProfile] = [
        read_device_profile(file) for file in SHIPPED if file.stem.split("_")[0] == captured.stem
    ]
    assert len(result) == 2
    for profile in result:
        profile.check_fits(captured.stem, profile.batch_size, variables)

"""What concerns all tests: splitting the CPU into devices once a process, and which tests may run side by side."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

LOGICAL_DEVICES = 8
"""As many as the largest cluster any test plays in one process."""

TESTS = Path(__file__).parent
WITH_RAY = ("contracts/test_backend_contract", "contracts/test_traffic", "dataset/test_ray_data", "ray_up")
WITH_RAY += ("train/test_on_ray", "trials", "tune")
"""Folders and files that start Ray, or hosts of their own: they look after the processes of the whole machine."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in its own hook of this name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several processes (`pytest -n 2 --dist loadgroup`) a file's tests stay together, and those with Ray too."""
    for item in items:
        file = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else item.path.name
        item.add_marker(pytest.mark.xdist_group("with Ray" if file.startswith(WITH_RAY) else file))


def pytest_collection_finish() -> None:
    """Runs of pure tests never import TensorFlow here; modules that need it have done so by now."""
    if "tensorflow" in sys.modules:
        from autosync.engine.servers import use_logical_devices

        use_logical_devices(LOGICAL_DEVICES)

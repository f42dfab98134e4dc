"""What concerns all tests: splitting the CPU into devices once a process, and which tests may run side by side."""

from __future__ import annotations

import sys
from typing import Any

import pytest

LOGICAL_DEVICES = 8
"""As many as the largest cluster any test plays in one process."""

WITH_RAY = ("contracts/test_backend_contract", "contracts/test_traffic", "dataset/test_ray_data", "ray_up")
WITH_RAY += ("train/test_on_ray", "trials", "tune")
"""Folders and files that start Ray, or hosts of their own: they look after the processes of the whole machine."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several processes (`pytest -n 2`) a file's tests stay together, and all those with Ray do."""
    from xdist.scheduler import LoadScopeScheduling

    class TogetherWithRay(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0].removeprefix("tests/")
            return "with Ray" if file.startswith(WITH_RAY) else file

    return TogetherWithRay(config, log)


def pytest_collection_finish() -> None:
    """Runs of pure tests never import TensorFlow here; modules that need it have done so by now."""
    if "tensorflow" in sys.modules:
        from autosync.engine.servers import use_logical_devices

        use_logical_devices(LOGICAL_DEVICES)

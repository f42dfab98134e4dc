"""One thing that must happen once a process: splitting its CPU into devices, before any test uses TensorFlow."""

from __future__ import annotations

import sys

LOGICAL_DEVICES = 8
"""As many as the largest cluster any test plays in one process."""


def pytest_collection_finish() -> None:
    """Runs of pure tests never import TensorFlow here; modules that need it have done so by now."""
    if "tensorflow" in sys.modules:
        from autosync.engine.servers import use_logical_devices

        use_logical_devices(LOGICAL_DEVICES)

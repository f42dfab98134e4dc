"""The engines under test."""

from __future__ import annotations

import pytest

from autosync.engine.core.registry import ENGINES, engine_named
from tests.conftest import LOGICAL_DEVICES
from tests.engine.contracts.on_pytorch import PyTorchSubject
from tests.engine.contracts.on_tensorflow import TensorFlowSubject
from tests.engine.contracts.subject import Subject

SUBJECTS: dict[str, Subject] = {"tensorflow": TensorFlowSubject(), "pytorch": PyTorchSubject()}


@pytest.fixture(params=ENGINES)
def subject(request: pytest.FixtureRequest) -> Subject:
    """An engine under test."""
    engine = engine_named(request.param)
    engine.load()
    engine.use_logical_devices(LOGICAL_DEVICES)
    return SUBJECTS[request.param]

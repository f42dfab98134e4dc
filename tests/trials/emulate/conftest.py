"""Provides a unique name for an emulated cluster, and removes its remains."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import pytest

from tests.trials.emulate.clusters import remains
from trials.emulate import down

_numbers = count()


@pytest.fixture
def name() -> Iterator[str]:
    yield from _name()


@pytest.fixture(scope="module")
def module_name() -> Iterator[str]:
    yield from _name()


def _name() -> Iterator[str]:
    name = f"t{os.getpid()}-{next(_numbers)}"
    yield name
    down(name)
    assert remains(name) == []

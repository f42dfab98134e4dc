"""The memory that workers need, and the sentence where a machine has less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.errors import ClusterError
from autosync.spec import ModelSpec, Variable
from trials.workers.memory import (
    PROCESS_BYTES,
    UNCHECKED,
    Memory,
    check_room,
    memory_here,
    memory_in_words,
    worker_bytes,
)

MODEL = ModelSpec("wide", 8, "adam", 2, (Variable("kernel", (1000, 53_000), "float32", ready_order=0),))
"""53 M parameters with Adam."""


def test_a_worker_needs_its_values_and_slots_several_times() -> None:
    assert worker_bytes(MODEL) == 53e6 * 4 * 11.5
    assert worker_bytes(replace(MODEL, slots=0)) == 53e6 * 4 * 8
    assert memory_in_words(MODEL).startswith("A worker needs about 3.14 GB of memory (700 MB for TensorFlow, 2.44 GB")


def test_workers_of_one_machine_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UNCHECKED, raising=False)
    check_room(MODEL, [Memory("one", 10e9)] * 4)
    check_room(MODEL, [Memory("one", 3e9), Memory("two", 3e9)])
    with pytest.raises(ClusterError, match=r"needs about 9\.75 GB of memory for 4 workers on one machine"):
        check_room(MODEL, [Memory("one", 6e9)] * 4)
    monkeypatch.setenv(UNCHECKED, "1")
    check_room(MODEL, [Memory("one", 6e9)] * 4)


def test_this_machine_has_some_memory() -> None:
    assert 0 < memory_here().free < 1e15
    assert memory_here().machine == memory_here().machine
    assert PROCESS_BYTES > 0

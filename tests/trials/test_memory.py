"""The memory that workers need, and the message if a machine has less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.engine.core.registry import engine_named
from autosync.errors import ClusterError
from autosync.spec import ModelSpec, Variable
from trials.workers.memory import UNCHECKED, FreeMemory, check_room, memory_here, memory_in_words, worker_bytes

MODEL = ModelSpec("wide", 8, "adam", 2, (Variable("kernel", (1000, 53_000), "float32", ready_order=0),))
"""53 M parameters with Adam."""


def test_a_worker_needs_its_values_and_slots_several_times() -> None:
    assert worker_bytes(MODEL) == 53e6 * 4 * 11.5
    assert worker_bytes(replace(MODEL, slots=0)) == 53e6 * 4 * 8
    for name, share in (
        ("tensorflow", "3.14 GB of memory (700 MB for TensorFlow"),
        ("pytorch", "2.84 GB of memory (400"),
    ):
        assert memory_in_words(MODEL, engine_named(name)).startswith(f"A worker needs about {share}")


def test_workers_of_one_machine_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UNCHECKED, raising=False)
    check_room(MODEL, [FreeMemory("one", 10e9)] * 4)
    check_room(MODEL, [FreeMemory("one", 3e9), FreeMemory("two", 3e9)])
    with pytest.raises(ClusterError, match=r"needs about 9\.75 GB of memory for 4 workers on one machine"):
        check_room(MODEL, [FreeMemory("one", 6e9)] * 4)
    monkeypatch.setenv(UNCHECKED, "1")
    check_room(MODEL, [FreeMemory("one", 6e9)] * 4)


def test_this_machine_has_some_memory() -> None:
    assert 0 < memory_here().free < 1e15
    assert memory_here().machine == memory_here().machine

"""The memory that a worker needs for a model, and the check that machines have it."""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autosync.engine.core.contract import Engine
from autosync.errors import ClusterError
from autosync.spec import DTYPE_BYTES, ModelSpec
from autosync.words.quantities import megabytes

UNCHECKED = "AUTOSYNC_UNCHECKED_MEMORY"
"""The environment variable that lets workers start even if memory seems too small."""

VALUES, SLOT = 8.0, 1.75
"""Bytes at a step's peak over the bytes of all values: without optimizer slots, and in addition for each slot.

Two workers, all-reduced with Adam, which has two slots, take 1.19 GiB each with 10 M parameters and 2.5 GiB with 41 M,
which is 11.6 times the bytes of the values. On logical devices, without messages, the factor is 7.0 (3.5 with SGD), and
on parameter servers 5.5 (2.9 with SGD). The memory holds the values, their gradients, old and new values and slots, and
flat arrays.
"""


@dataclass(frozen=True)
class FreeMemory:
    """The memory that is free for a worker process. Workers of one `machine` share it."""

    machine: str
    free: float
    """Free bytes."""


def worker_bytes(model: ModelSpec) -> float:
    """Return the bytes that a worker takes for `model`, without `Engine.process_bytes` and a batch's activations."""
    values = sum(variable.elements * DTYPE_BYTES[variable.dtype] for variable in model.variables)
    return values * (VALUES + SLOT * model.slots)


def memory_in_words(model: ModelSpec, engine: Engine) -> str:
    """Return a sentence on the memory that a worker of `engine` needs."""
    need, process = worker_bytes(model), engine.process_bytes
    return (
        f"A worker needs about {megabytes(process + need)} of memory ({megabytes(process)} for {engine.title}, "
        f"{megabytes(need)} for the model), and more for the activations of its batch."
    )


def check_room(model: ModelSpec, memories: Sequence[FreeMemory]) -> None:
    """Raise `ClusterError` if a machine has less free memory than its workers, one in `memories` each, will take."""
    need = worker_bytes(model)
    free = {memory.machine: memory.free for memory in memories}
    for machine, workers in Counter(memory.machine for memory in memories).items():
        if workers * need > free[machine] and not os.environ.get(UNCHECKED):
            raise ClusterError(
                f"{model.name!r} needs about {megabytes(workers * need)} of memory for {workers} workers on one "
                f"machine, but {megabytes(free[machine])} are free; use fewer workers or a smaller model, or set "
                f"{UNCHECKED}=1 to start them all the same."
            )


def memory_here() -> FreeMemory:
    """Return the free memory of this machine, or of this container if that is less."""
    free = [_available()]
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):  # no limit, or no cgroup of version 2
        free.append(float((group / "memory.max").read_text()) - float((group / "memory.current").read_text()))
    machine = "this machine"
    with suppress(OSError):
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return FreeMemory(machine, max(0.0, min(free)))


def _available() -> float:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    return float("inf")

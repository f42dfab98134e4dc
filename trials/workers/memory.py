"""The memory that a worker needs for a model, and whether machines have it."""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autosync.errors import ClusterError
from autosync.spec import DTYPE_BYTES, ModelSpec
from autosync.words.quantities import megabytes

UNCHECKED = "AUTOSYNC_UNCHECKED_MEMORY"
"""The environment variable that lets workers start where memory seems too small."""

PROCESS_BYTES = 0.7e9
"""Bytes of a worker process with TensorFlow loaded, before it has a model: 676 MiB resident on two cores."""

VALUES, SLOT = 8.0, 1.75
"""Bytes at a step's peak over the bytes of all values: without optimizer slots, and for each slot more.

Two workers, all-reduced with Adam, which has two slots: 1.19 GiB each with 10 M parameters and 2.5 GiB with 41 M, which
is 11.6 times the bytes of the values. On logical devices, without messages, it is 7.0, with SGD 3.5, and on parameter
servers 5.5 and 2.9. That is the values, their gradients, both old and new values and slots, and flat arrays.
"""


@dataclass(frozen=True)
class Memory:
    """The memory that a worker process may still take. Workers of one `machine` share it."""

    machine: str
    free: float


def worker_bytes(model: ModelSpec) -> float:
    """Bytes that a worker takes for `model` besides `PROCESS_BYTES` and the activations of a batch."""
    values = sum(variable.elements * DTYPE_BYTES[variable.dtype] for variable in model.variables)
    return values * (VALUES + SLOT * model.slots)


def memory_in_words(model: ModelSpec) -> str:
    """A sentence on the memory that a worker needs."""
    need = worker_bytes(model)
    return (
        f"A worker needs about {megabytes(PROCESS_BYTES + need)} of memory ({megabytes(PROCESS_BYTES)} for TensorFlow, "
        f"{megabytes(need)} for the model), and more for the activations of its batch."
    )


def check_room(model: ModelSpec, memories: Sequence[Memory]) -> None:
    """Raise `ClusterError` if a machine has less memory free than its workers, one in `memories` each, will take."""
    need = worker_bytes(model)
    free = {memory.machine: memory.free for memory in memories}
    for machine, workers in Counter(memory.machine for memory in memories).items():
        if workers * need > free[machine] and not os.environ.get(UNCHECKED):
            raise ClusterError(
                f"{model.name!r} needs about {megabytes(workers * need)} of memory for {workers} workers on one "
                f"machine, but {megabytes(free[machine])} are free; take fewer workers or a smaller model, or set "
                f"{UNCHECKED}=1 to start them all the same."
            )


def memory_here() -> Memory:
    """The memory free on this machine, or in this container if that is less."""
    free = [_available()]
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):  # no limit, or no cgroup of version 2
        free.append(float((group / "memory.max").read_text()) - float((group / "memory.current").read_text()))
    machine = "this machine"
    with suppress(OSError):
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Memory(machine, max(0.0, min(free)))


def _available() -> float:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    return float("inf")

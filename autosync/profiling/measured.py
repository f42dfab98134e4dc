"""The measurement of a model: the profile of a replica's passes on this machine's device."""

from dataclasses import dataclass
from datetime import date
from importlib.metadata import version

from autosync.profiling.device import device_name, find_device, versions_on
from autosync.profiling.eager import time_eager
from autosync.profiling.passes import CudaClock, HostClock, PassTimes
from autosync.profiling.precision import PRECISIONS, check_precision, set_precision
from autosync.profiling.replayed import time_cuda_graph, time_replay
from autosync.profiling.tape import record_tape
from autosync.spec import DeviceProfile
from autosync.zoo.on_torch import TaskOnTorch, build_on_torch, load_keras_on_torch

FIRST_STEPS = 2
"""Eager steps before the recorded one, in which one-time work is done."""


@dataclass(frozen=True)
class ProfileOptions:
    """How a profile is measured."""

    device: str
    """The kind of device, 'cuda' or 'cpu'."""
    precision: str
    """A key of `PRECISIONS`."""
    day: date
    """The date of the measurement."""
    warmup: int = 10
    """Steps before the timed ones."""
    steps: int = 40
    """Timed steps."""
    eager: bool = False
    """Run passes eagerly; otherwise they run from a tape, on a GPU as a CUDA graph."""


@dataclass(frozen=True)
class ProfileResult:
    """A measured profile."""

    profile: DeviceProfile
    unused: tuple[str, ...]
    """The variables without a gradient, which the profile leaves out. A captured model leaves them out too."""


def measure_profile(model: str, how: ProfileOptions) -> ProfileResult:
    """Measure the passes of `model`, from the zoo or the user's own, with the options `how`.

    From then on, this process's Keras runs on PyTorch. Raises `ModelError`.
    """
    precision = PRECISIONS[how.precision]
    load_keras_on_torch(precision.policy)
    device = find_device(how.device)
    check_precision(how.precision, device)
    set_precision(precision)
    task = build_on_torch(model, str(device))
    task.check()
    passes, launched = _time_passes(task, device.type == "cuda", how)
    profile = DeviceProfile(
        device=device_name(device),
        versions=versions_on(device) | {"keras": version("keras"), "launched": launched},
        batch_size=task.batch_size,
        precision=precision.words,
        date=how.day.isoformat(),
        forward_seconds=passes.forward,
        backward_seconds=passes.backward,
        ready_seconds={name: passes.ready[name] for name in task.parameters if name in passes.ready},
    )
    return ProfileResult(profile, tuple(name for name in task.parameters if name not in passes.ready))


def _time_passes(task: TaskOnTorch, on_gpu: bool, how: ProfileOptions) -> tuple[PassTimes, str]:
    """Return the times of the task's passes, and how operations were launched on the device."""
    if how.eager:
        clock = CudaClock() if on_gpu else HostClock()
        return time_eager(task.loss, task.parameters, clock, how.warmup, how.steps), "eagerly"
    for _ in range(FIRST_STEPS):
        task.loss().backward()
    tape = record_tape(task.loss, task.parameters)
    if on_gpu:
        return time_cuda_graph(tape, how.warmup, how.steps), "as a CUDA graph"
    return time_replay(tape, how.warmup, how.steps), "from tape"

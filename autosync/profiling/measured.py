"""A model measured: the profile of a replica's passes on this machine's device."""

from dataclasses import dataclass
from datetime import date
from importlib.metadata import version

from autosync.engine.on_torch import TaskOnTorch, built_on_torch, load_keras_on_torch
from autosync.profiling.device import device_name, found_device, versions_on
from autosync.profiling.eager import eager_passes
from autosync.profiling.passes import CudaClock, HostClock, Passes
from autosync.profiling.precision import PRECISIONS, check_precision, set_precision
from autosync.profiling.replayed import graphed_passes, replayed_passes
from autosync.profiling.tape import taped
from autosync.spec import DeviceProfile

FIRST_STEPS = 2
"""Eager steps before one is taped, in which whatever is made once is made."""


@dataclass(frozen=True)
class Measuring:
    """How a profile is measured: on which kind of device, in which precision, over how many steps, on which day.

    Passes are run from a tape, on a GPU as a CUDA graph, unless they are to be `eager`.
    """

    device: str
    precision: str
    day: date
    warmup: int = 10
    steps: int = 40
    eager: bool = False


@dataclass(frozen=True)
class Measured:
    """The profile, and the variables that it leaves out as they have no gradient; a captured model does too."""

    profile: DeviceProfile
    unused: tuple[str, ...]


def measured(model: str, how: Measuring) -> Measured:
    """The passes of `model`, of the zoo or the user's own, measured as `how` says.

    This process's Keras runs on PyTorch from then on. Raises `ModelError`.
    """
    precision = PRECISIONS[how.precision]
    load_keras_on_torch(precision.policy)
    device = found_device(how.device)
    check_precision(how.precision, device)
    set_precision(precision)
    task = built_on_torch(model, str(device))
    task.check()
    passes, launched = _timed(task, device.type == "cuda", how)
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
    return Measured(profile, tuple(name for name in task.parameters if name not in passes.ready))


def _timed(task: TaskOnTorch, on_gpu: bool, how: Measuring) -> tuple[Passes, str]:
    """The passes of `task`, and how the device was given its work."""
    if how.eager:
        clock = CudaClock() if on_gpu else HostClock()
        return eager_passes(task.loss, task.parameters, clock, how.warmup, how.steps), "eagerly"
    for _ in range(FIRST_STEPS):
        task.loss().backward()
    tape = taped(task.loss, task.parameters)
    if on_gpu:
        return graphed_passes(tape, how.warmup, how.steps), "as a CUDA graph"
    return replayed_passes(tape, how.warmup, how.steps), "from tape"

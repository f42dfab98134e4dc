"""A model measured: the profile of a replica's passes on this machine's device."""

from dataclasses import dataclass
from datetime import date
from importlib.metadata import version

from autosync.engine.on_torch import built_on_torch, load_keras_on_torch
from autosync.errors import ModelError
from autosync.profiling.device import device_name, found_device, versions_on
from autosync.profiling.passes import CudaClock, HostClock, timed_passes
from autosync.profiling.precision import PRECISIONS, check_precision, set_precision
from autosync.spec import DeviceProfile


@dataclass(frozen=True)
class Measuring:
    """How a profile is measured: on which kind of device, in which precision, over how many steps, on which day."""

    device: str
    precision: str
    day: date
    warmup: int = 10
    steps: int = 40


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
    clock = CudaClock() if device.type == "cuda" else HostClock()
    passes = timed_passes(task.loss, task.parameters, clock, how.warmup, how.steps)
    if not passes.ready:
        raise ModelError(f"The loss of model {task.name!r} depends on none of its variables; check the loss.")
    profile = DeviceProfile(
        device=device_name(device),
        versions=versions_on(device) | {"keras": version("keras")},
        batch_size=task.batch_size,
        precision=precision.words,
        date=how.day.isoformat(),
        forward_seconds=passes.forward,
        backward_seconds=passes.backward,
        ready_seconds={name: passes.ready[name] for name in task.parameters if name in passes.ready},
    )
    return Measured(profile, tuple(name for name in task.parameters if name not in passes.ready))

"""What a network is to the simulator: how much of a strategy it reads, how it is trained, how it is restored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import torch

from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.settings import TrainingSettings
from autosync.simulator.train import Lesson, seeded, train

FloatArray = npt.NDArray[np.float64]
CHUNK = 256
"""Strategies predicted at once: what they take stays within tens of megabytes."""


@final
class Member:
    """One trained module of an ensemble, used in float64."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module.double()

    def residuals(self, inputs: Inputs) -> FloatArray:
        """What to add to the base's log seconds, float64 (n,), for normalized inputs."""
        found = [np.zeros(0)]
        with torch.no_grad():
            for begin in range(0, len(inputs), CHUNK):
                chosen = inputs.take(range(begin, min(begin + CHUNK, len(inputs))))
                found.append(self.module(chosen).numpy())
        return np.concatenate(found)

    def tensors(self) -> dict[str, torch.Tensor]:
        return dict(self.module.state_dict())


@final
@dataclass(frozen=True)
class Network:
    """A kind of model that can be learned. `train` starts from a member of its own kind, if one is given."""

    detail: Detail
    settings: TrainingSettings
    train: Callable[[Lesson, Member | None], Member]
    restore: Callable[[Mapping[str, torch.Tensor]], Member]


def torch_network(detail: Detail, settings: TrainingSettings, build: Callable[[], torch.nn.Module]) -> Network:
    """The network of modules that `build` makes; they map normalized inputs to residuals (n,)."""

    def trained(lesson: Lesson, start: Member | None) -> Member:
        with seeded(int(torch.randint(2**31, (), generator=lesson.generator))):
            module = build()
        if start is not None:
            module.load_state_dict(start.tensors())
        module.float()
        train(module, lesson)
        return Member(module)

    def restored(tensors: Mapping[str, torch.Tensor]) -> Member:
        with seeded(0):
            module = build().double()
        for name in module.state_dict():
            if name not in tensors:
                raise KeyError(name)
        module.load_state_dict(tensors)
        return Member(module)

    return Network(detail, settings, trained, restored)

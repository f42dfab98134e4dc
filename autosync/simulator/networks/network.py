"""The interface of networks: the detail they read, their training, and their restoration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from autosync.numeric import FloatArray
from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.settings import TrainingSettings
from autosync.simulator.train import FitTask, torch_seed, train

CHUNK = 256
"""Strategies per prediction, which keeps memory within tens of megabytes."""


@final
class EnsembleMember:
    """One trained module of an ensemble, used in float64."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module.double()

    def residuals(self, inputs: Inputs) -> FloatArray:
        """Return the values to add to the base's log seconds, float64 (n,), for normalized inputs."""
        pieces = [np.zeros(0)]
        with torch.no_grad():
            for begin in range(0, len(inputs), CHUNK):
                chosen = inputs.take(range(begin, min(begin + CHUNK, len(inputs))))
                pieces.append(self.module(chosen).numpy())
        return np.concatenate(pieces)

    def tensors(self) -> dict[str, torch.Tensor]:
        return dict(self.module.state_dict())


@final
@dataclass(frozen=True)
class Network:
    """A kind of model that can be trained. `train` starts from a member of the same kind, if one is passed."""

    detail: Detail
    settings: TrainingSettings
    train: Callable[[FitTask, EnsembleMember | None], EnsembleMember]
    restore: Callable[[Mapping[str, torch.Tensor]], EnsembleMember]


def torch_network(detail: Detail, settings: TrainingSettings, build: Callable[[], torch.nn.Module]) -> Network:
    """Return the network whose modules `build` creates; they map normalized inputs to residuals (n,)."""

    def train_member(task: FitTask, start: EnsembleMember | None) -> EnsembleMember:
        with torch_seed(int(torch.randint(2**31, (), generator=task.generator))):
            module = build()
        if start is not None:
            module.load_state_dict(start.tensors())
        module.float()
        train(module, task)
        return EnsembleMember(module)

    def restore_member(tensors: Mapping[str, torch.Tensor]) -> EnsembleMember:
        with torch_seed(0):
            module = build().double()
        for name in module.state_dict():
            if name not in tensors:
                raise KeyError(name)
        module.load_state_dict(tensors)
        return EnsembleMember(module)

    return Network(detail, settings, train_member, restore_member)

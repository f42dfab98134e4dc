"""The loss that decides whether a run of a module has reached its target."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import final

import torch

from autosync.engine.pytorch.arrays import tensor_of
from autosync.engine.pytorch.capture import CapturedModule
from autosync.engine.pytorch.state import replica_names
from autosync.engine.pytorch.task import state_of
from autosync.numeric import AnyArray

BATCHES = 16
"""Batches a replica. Without data, the example batch is evaluated once: all batches that are made of it are as good."""


@final
class PyTorchEvaluation:
    """The mean loss over the first batches of the training data, as a model function names no other data.

    The module is in evaluation mode, without dropout and with the running statistics of batch normalization.
    """

    def __init__(self, captured: CapturedModule, replicas: int) -> None:
        task = captured.task.fresh()
        task.module.eval()
        self._task = task
        self._untrained = replica_names(captured)
        self._batches = 1 if task.data is None else BATCHES * replicas

    def loss(self, values: Mapping[str, AnyArray], state: tuple[AnyArray, ...]) -> float:
        """The loss at `values`, by variable, with the buffers and frozen parameters `state` of a replica."""
        tensors, arrays = state_of(self._task.module), {**values, **dict(zip(self._untrained, state, strict=True))}
        with torch.no_grad():
            for name, array in arrays.items():
                tensors[name].copy_(tensor_of(array))
            batches = map(self._task.training_batch, range(self._batches))
            return fmean(float(self._task.loss_on(batch)) for batch in batches)

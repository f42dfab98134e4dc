"""The parts of a training task that all models of this package share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

SEED = np.random.SeedSequence(1)
"""The seed of all example batches."""

Batches = tuple[Any, Any] | DataLoader[Any]
Parts = tuple[nn.Module, Callable[[Any, Any], torch.Tensor], Batches, torch.optim.Optimizer]
"""Module, loss, example batch or data, and optimizer, as a model function returns them."""


def tensors_of(drawn: tuple[Any, Any]) -> tuple[Any, Any]:
    """The tensors of NumPy arrays in nested tuples; whole numbers become int64, which PyTorch's losses need."""
    inputs, targets = map(_tensor, drawn)
    return inputs, targets


def _tensor(drawn: Any) -> Any:
    if isinstance(drawn, tuple):
        return tuple(map(_tensor, drawn))
    tensor = torch.from_numpy(np.ascontiguousarray(drawn))
    return tensor if tensor.is_floating_point() else tensor.long()


def word_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy over the positions of `targets` (examples, positions)."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def dropout(share: float) -> nn.Module:
    """A layer that drops `share` of the activations, and that costs nothing if the share is 0."""
    return nn.Dropout(share) if share else nn.Identity()

"""The perceptron for tests in PyTorch, as `autosync.zoo.perceptron` describes it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from autosync.zoo.batches import features_batch
from autosync.zoo.sizes import PERCEPTRON
from autosync.zoo.torch.parts import SEED, Parts, tensors_of


def module_of(_name: str) -> nn.Module:
    """Three dense layers with smooth activations."""
    first, second = PERCEPTRON.hidden
    return nn.Sequential(
        nn.Linear(PERCEPTRON.inputs, first),
        nn.Tanh(),
        nn.Linear(first, second),
        nn.GELU(),
        nn.Linear(second, PERCEPTRON.classes),
    )


def batch_of(_name: str) -> tuple[Any, Any]:
    """(inputs, targets)."""
    return tensors_of(features_batch(SEED, PERCEPTRON))


def mlp() -> Parts:
    """The model *mlp*."""
    module = module_of("mlp")
    optimizer = torch.optim.SGD(module.parameters(), PERCEPTRON.learning_rate, momentum=0.9)
    return module, F.cross_entropy, batch_of("mlp"), optimizer

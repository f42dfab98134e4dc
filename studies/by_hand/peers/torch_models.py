"""The zoo's CPU models in PyTorch, with the optimizers of their Keras twins; each step draws a batch of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from autosync.zoo.sizes import BERT, IMAGES, RECOMMENDERS
from autosync.zoo.torch import bert, images
from autosync.zoo.torch.recommendation import NeuMF

__all__ = ["TORCH_MODELS", "TorchTask", "torch_task"]


@dataclass(frozen=True)
class TorchTask:
    """A model with functions that make a batch, compute the loss and make the optimizer for some parameters."""

    model: nn.Module
    batch: Callable[[], tuple[tuple[Tensor, ...], Tensor]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[Any], torch.optim.Optimizer]


def _bert_batch() -> tuple[tuple[Tensor, ...], Tensor]:
    size = BERT["bert-mini"]
    tokens = _zipf((size.batch_size, size.sequence), size.vocabulary)
    masked = torch.rand(size.batch_size, size.sequence).topk(size.predictions).indices
    targets = tokens.gather(1, masked)
    half = size.sequence // 2
    segments = torch.tensor([0] * half + [1] * half).expand(size.batch_size, -1)
    return (tokens.scatter(1, masked, 0), segments, masked), targets


def _vgg_batch() -> tuple[tuple[Tensor, ...], Tensor]:
    size = IMAGES["vgg-mini"]
    labels = torch.randint(size.classes, (size.batch_size,))
    images = (torch.rand(size.batch_size, 3, size.pixels, size.pixels) * 2 - 1) * math.sqrt(3)
    return (images + (labels / size.classes - 0.5).view(-1, 1, 1, 1),), labels


def _ncf_batch() -> tuple[tuple[Tensor, ...], Tensor]:
    size = RECOMMENDERS["ncf-mini"]
    shape = (size.batch_size,)
    users = _scatter((torch.rand(shape) ** 2 * size.users).long().clamp(max=size.users - 1), size.users)
    popular = _scatter(_zipf(shape, size.items), size.items)
    made = torch.rand(shape) < 0.2
    return (users, torch.where(made, popular, torch.randint(size.items, shape))), made.float()


def _zipf(shape: tuple[int, ...], size: int) -> Tensor:
    """Return numbers with the distribution of `autosync.zoo.synthetic.zipf_ids`."""
    return (torch.exp(torch.rand(shape) * math.log(size + 1)).long() - 1).clamp(max=size - 1)


def _scatter(ranks: Tensor, size: int) -> Tensor:
    stride = int(size * 0.618)
    while math.gcd(stride, size) != 1:
        stride += 1
    return ranks * stride % size


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def _bert_mini(_sparse: bool) -> TorchTask:
    def adam(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, 1e-4, eps=1e-6, fused=True)

    return TorchTask(bert.module_of("bert-mini"), _bert_batch, _cross_entropy, adam)


def _vgg_mini(_sparse: bool) -> TorchTask:
    def momentum(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, 0.01, momentum=0.9, fused=True)

    return TorchTask(images.module_of("vgg-mini"), _vgg_batch, _cross_entropy, momentum)


def _ncf_mini(sparse: bool) -> TorchTask:
    def adam(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, 5e-4, eps=1e-8, fused=True)

    return TorchTask(
        NeuMF(RECOMMENDERS["ncf-mini"], sparse), _ncf_batch, functional.binary_cross_entropy_with_logits, adam
    )


TORCH_MODELS = {"bert-mini": _bert_mini, "vgg-mini": _vgg_mini, "ncf-mini": _ncf_mini}


def torch_task(name: str, sparse: bool) -> TorchTask:
    """Return the task called `name`, with random weights that are the same in every process."""
    torch.manual_seed(0)
    return TORCH_MODELS[name](sparse)

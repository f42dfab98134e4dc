"""The zoo's models for CPUs in PyTorch: the same variables, arithmetic, optimizers and batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["TORCH_MODELS", "TorchTask", "torch_task"]


@dataclass(frozen=True)
class TorchTask:
    """A model, the loss of one batch of its own making, and its optimizer for given parameters."""

    model: nn.Module
    batch: Callable[[], tuple[tuple[Tensor, ...], Tensor]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[Any], torch.optim.Optimizer]


class BertMini(nn.Module):
    """`autosync.engine.zoo.bert` at the size of bert-mini; layers are normalized after their residual sums."""

    VOCABULARY, LAYERS, WIDTH, HEADS, SEQUENCE, PREDICTIONS, BATCH = 3500, 2, 128, 4, 32, 5, 8
    EPSILON = 1e-12

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(self.VOCABULARY, self.WIDTH)
        self.positions = nn.Parameter(torch.randn(self.SEQUENCE, self.WIDTH) * 0.02)
        self.segments = nn.Linear(2, self.WIDTH, bias=False)
        self.norm = nn.LayerNorm(self.WIDTH, self.EPSILON)
        self.layers = nn.ModuleList(_Encoder(self.WIDTH, self.HEADS, self.EPSILON) for _ in range(self.LAYERS))
        self.head = nn.Linear(self.WIDTH, self.WIDTH)
        self.head_norm = nn.LayerNorm(self.WIDTH, self.EPSILON)
        self.head_bias = nn.Parameter(torch.zeros(self.VOCABULARY))
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: Tensor, segments: Tensor, masked: Tensor) -> Tensor:
        """Logits (batch, predictions, vocabulary)."""
        one_hot = functional.one_hot(segments, 2).float()
        x = self.norm(self.tokens(tokens) + self.positions + self.segments(one_hot))
        for layer in self.layers:
            x = layer(x)
        x = torch.gather(x, 1, masked[:, :, None].expand(-1, -1, self.WIDTH))
        x = self.head_norm(functional.gelu(self.head(x), approximate="tanh"))
        return x @ self.tokens.weight.T + self.head_bias

    @classmethod
    def batch(cls) -> tuple[tuple[Tensor, ...], Tensor]:
        tokens = _zipf((cls.BATCH, cls.SEQUENCE), cls.VOCABULARY)
        masked = torch.rand(cls.BATCH, cls.SEQUENCE).topk(cls.PREDICTIONS).indices
        targets = tokens.gather(1, masked)
        half = cls.SEQUENCE // 2
        segments = torch.tensor([0] * half + [1] * half).expand(cls.BATCH, -1)
        return (tokens.scatter(1, masked, 0), segments, masked), targets


class _Encoder(nn.Module):
    def __init__(self, width: int, heads: int, epsilon: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width, epsilon) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            each(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        attended = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        x = self.norms[0](x + self.out(attended))
        return self.norms[1](x + self.outer(functional.gelu(self.inner(x), approximate="tanh")))


class VggMini(nn.Sequential):
    """`autosync.engine.zoo.images` at the size of vgg-mini."""

    PIXELS, CLASSES, BATCH = 32, 10, 16

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        channels = 3
        for filters in (16, 32, 64):
            for _ in range(2):
                layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
                channels = filters
            layers.append(nn.MaxPool2d(2))
        layers += [nn.Flatten(), nn.Linear(1024, 672), nn.ReLU(), nn.Linear(672, 128), nn.ReLU()]
        super().__init__(*layers, nn.Linear(128, self.CLASSES))

    @classmethod
    def batch(cls) -> tuple[tuple[Tensor, ...], Tensor]:
        labels = torch.randint(cls.CLASSES, (cls.BATCH,))
        images = (torch.rand(cls.BATCH, 3, cls.PIXELS, cls.PIXELS) * 2 - 1) * math.sqrt(3)
        return (images + (labels / cls.CLASSES - 0.5).view(-1, 1, 1, 1),), labels


class NcfMini(nn.Module):
    """`autosync.engine.zoo.recommendation` at the size of ncf-mini; the tables' gradients are sparse if so told."""

    USERS, ITEMS, FACTORS, LAYERS, BATCH = 40000, 8000, 32, (128, 128, 64, 32), 4096

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        rows = [(self.USERS, self.FACTORS), (self.ITEMS, self.FACTORS)]
        rows += [(self.USERS, self.LAYERS[0] // 2), (self.ITEMS, self.LAYERS[0] // 2)]
        self.tables = nn.ModuleList(nn.Embedding(*shape, sparse=sparse) for shape in rows)
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.01)
        widths = zip(self.LAYERS, self.LAYERS[1:], strict=False)
        self.perceptron = nn.ModuleList(nn.Linear(wide, narrow) for wide, narrow in widths)
        self.prediction = nn.Linear(self.FACTORS + self.LAYERS[-1], 1)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits (batch,)."""
        factors = self.tables[0](users) * self.tables[1](items)
        x = torch.cat([self.tables[2](users), self.tables[3](items)], 1)
        for layer in self.perceptron:
            x = functional.relu(layer(x))
        return self.prediction(torch.cat([factors, x], 1)).squeeze(1)

    @classmethod
    def batch(cls) -> tuple[tuple[Tensor, ...], Tensor]:
        users = _scattered((torch.rand(cls.BATCH) ** 2 * cls.USERS).long().clamp(max=cls.USERS - 1), cls.USERS)
        popular = _scattered(_zipf((cls.BATCH,), cls.ITEMS), cls.ITEMS)
        made = torch.rand(cls.BATCH) < 0.2
        return (users, torch.where(made, popular, torch.randint(cls.ITEMS, (cls.BATCH,)))), made.float()


def _zipf(shape: tuple[int, ...], size: int) -> Tensor:
    """Numbers such as `autosync.engine.zoo.synthetic.zipf_ids` gives."""
    return (torch.exp(torch.rand(shape) * math.log(size + 1)).long() - 1).clamp(max=size - 1)


def _scattered(ranks: Tensor, size: int) -> Tensor:
    stride = int(size * 0.618)
    while math.gcd(stride, size) != 1:
        stride += 1
    return ranks * stride % size


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def _bert_mini(_sparse: bool) -> TorchTask:
    def adam(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, 1e-4, eps=1e-6, fused=True)

    return TorchTask(BertMini(), BertMini.batch, _cross_entropy, adam)


def _vgg_mini(_sparse: bool) -> TorchTask:
    def momentum(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, 0.01, momentum=0.9, fused=True)

    return TorchTask(VggMini(), VggMini.batch, _cross_entropy, momentum)


def _ncf_mini(sparse: bool) -> TorchTask:
    def adam(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, 5e-4, eps=1e-8, fused=True)

    return TorchTask(NcfMini(sparse), NcfMini.batch, functional.binary_cross_entropy_with_logits, adam)


TORCH_MODELS = {"bert-mini": _bert_mini, "vgg-mini": _vgg_mini, "ncf-mini": _ncf_mini}


def torch_task(name: str, sparse: bool) -> TorchTask:
    """The model called `name`, from random weights that are the same in every process."""
    torch.manual_seed(0)
    return TORCH_MODELS[name](sparse)

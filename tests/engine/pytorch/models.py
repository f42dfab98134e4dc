"""Small PyTorch modules for parity tests: prime sizes, tied and sparse tables."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from autosync.space import ALGORITHMS, Cut, PartBytes, PerServer, Rule, Servers, Space

BATCH = 4
"""Examples of one replica in a step."""

ROWS, COLUMNS = 13, 3
"""Rows of a table, and the lookups of one example."""

WIDTHS = (1, 2, 3, 5, 7, 11, 16)

WIDE = Space(
    "wide",
    (
        Rule(
            servers=Servers(local_copy=(False, True)),
            all_reduce=True,
            algorithms=ALGORITHMS,
            cut=Cut(counts=(1, 2, PerServer(1), PartBytes(64)), axes="every", min_shard_bytes=4),
            mixed_shards=True,
        ),
    ),
    max_buckets=6,
)
"""Strategies without compressors, in small parts."""


class Tied(nn.Module):
    """A table that is looked up at the input and multiplied with at the output; a scalar scales the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, 5)
        self.hidden = nn.Linear(5, 5)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.hidden(self.table(numbers.long()).mean(1)))
        return hidden @ self.table.weight.T * self.scale


class Sparse(nn.Module):
    """A table with sparse gradients in front of a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, 6, sparse=True)
        self.output = nn.Linear(6, 3)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return self.output(torch.tanh(self.table(numbers.long())).sum(1))


class Features(nn.Module):
    """Row numbers as features below 1, so that no activation saturates and Adam divides by no tiny gradient."""

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return numbers / ROWS


def dense() -> nn.Module:
    """Layers with prime dimensions."""
    return nn.Sequential(Features(), nn.Linear(COLUMNS, 13), nn.Tanh(), nn.Linear(13, 11), nn.Tanh(), nn.Linear(11, 3))


MODELS: dict[str, Callable[[], nn.Module]] = {"dense": dense, "tied": Tied, "sparse": Sparse}


_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw values from `seed`, although ranks are threads, which share torch's generator."""
    with _ONE_AT_A_TIME, torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def built(name: str) -> nn.Module:
    """The module `name` in float64, with the same values in every call."""
    with _seeded(3):
        return MODELS[name]().double()


def drawn(seed: int) -> nn.Module:
    """A module drawn at random: some layers of odd sizes, of which one may be used twice."""
    rng = random.Random(seed)
    with _seeded(seed):
        width = rng.choice(WIDTHS)
        layers: list[nn.Module] = [Features(), nn.Linear(COLUMNS, width)]
        for _ in range(rng.randint(1, 4)):
            kind = rng.choice(("dense", "twice", "normalized"))
            if kind == "twice":
                shared = nn.Linear(width, width)
                layers += [shared, nn.Tanh(), shared, nn.Tanh()]
            else:
                wider = rng.choice(WIDTHS)
                layers += [nn.Linear(width, wider, bias=rng.random() < 0.7), nn.Tanh()]
                width = wider
                if kind == "normalized":
                    layers.append(nn.LayerNorm(width, eps=0.1))
        return nn.Sequential(*layers, nn.Linear(width, 3)).double()


def batches(replicas: int, steps: int = 4) -> list[torch.Tensor]:
    """The examples of all replicas in each step, as row numbers that also serve as features."""
    generator = torch.Generator().manual_seed(5)
    return [
        torch.randint(ROWS, (BATCH * replicas, COLUMNS), generator=generator, dtype=torch.float64) for _ in range(steps)
    ]


def loss(module: nn.Module, examples: torch.Tensor) -> torch.Tensor:
    return (module(examples) / 3).square().mean()

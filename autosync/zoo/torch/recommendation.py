"""Neural collaborative filtering in PyTorch, as `autosync.zoo.recommendation` describes it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

from autosync.zoo.batches import ratings_batch
from autosync.zoo.sizes import RECOMMENDERS, NeuMFSize
from autosync.zoo.torch.parts import SEED, Parts, tensors_of

BATCHES = 32
"""The batches of the data. Each looks up rows of its own, as those of replicas that train on different ratings."""


class NeuMF(nn.Module):
    """Matrix factorization in parallel with a perceptron (He et al., "Neural Collaborative Filtering", 2017)."""

    def __init__(self, size: NeuMFSize, is_sparse: bool = True) -> None:
        """`is_sparse`: the gradients of the tables have their touched rows only."""
        super().__init__()

        def table(rows: int, width: int) -> nn.Embedding:
            made = nn.Embedding(rows, width, sparse=is_sparse)
            nn.init.normal_(made.weight, std=0.01)
            return made

        half = size.layers[0] // 2
        self.user_factors, self.item_factors = table(size.users, size.factors), table(size.items, size.factors)
        self.user_table, self.item_table = table(size.users, half), table(size.items, half)
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(size.layers):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.perceptron = nn.Sequential(*layers)
        self.prediction = nn.Linear(size.factors + size.layers[-1], 1)

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Logits (ratings,)."""
        product = self.user_factors(users) * self.item_factors(items)
        hidden = self.perceptron(torch.cat([self.user_table(users), self.item_table(items)], 1))
        return self.prediction(torch.cat([product, hidden], 1))[:, 0]


def module_of(name: str) -> nn.Module:
    """The module called `name`, one of `RECOMMENDERS`."""
    return NeuMF(RECOMMENDERS[name])


def batch_of(name: str, number: int = 0) -> tuple[Any, Any]:
    """(inputs, targets) of the model called `name` in its batch `number`."""
    seed = np.random.SeedSequence(SEED.entropy, spawn_key=(number,))
    return tensors_of(ratings_batch(seed, RECOMMENDERS[name]))


class Ratings(Dataset[Any]):
    """The ratings of `BATCHES` batches, one batch after another."""

    def __init__(self, name: str) -> None:
        """`name` is that of the model."""
        inputs, targets = zip(*(batch_of(name, number) for number in range(BATCHES)), strict=True)
        self._users, self._items = (torch.cat(numbers) for numbers in zip(*inputs, strict=True))
        self._targets = torch.cat(targets)

    def __len__(self) -> int:
        return len(self._targets)

    def __getitem__(self, rating: int) -> Any:
        return (self._users[rating], self._items[rating]), self._targets[rating]

    def __getitems__(self, ratings: Sequence[int]) -> Any:
        """(inputs, targets) of many `ratings` at once, because single ones take a hundred times as long."""
        numbers = torch.tensor(ratings)
        return (self._users[numbers], self._items[numbers]), self._targets[numbers]


def _whole(batch: Any) -> Any:
    """The batch, which `Ratings` has put together."""
    return batch


def _build(name: str) -> Parts:
    """It trains by Adagrad, because PyTorch's Adam takes no sparse gradients."""
    module = module_of(name)
    optimizer = torch.optim.Adagrad(module.parameters(), lr=0.01)
    data = DataLoader(Ratings(name), RECOMMENDERS[name].batch_size, collate_fn=_whole)
    return module, F.binary_cross_entropy_with_logits, data, optimizer


ncf = partial(_build, "ncf")
ncf_mini = partial(_build, "ncf-mini")

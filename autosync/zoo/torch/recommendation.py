"""Neural collaborative filtering in PyTorch, as `autosync.zoo.recommendation` describes it."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from autosync.zoo.batches import ratings_batch
from autosync.zoo.sizes import RECOMMENDERS, NeuMFSize
from autosync.zoo.torch.parts import SEED, Parts, tensors_of


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


def batch_of(name: str) -> tuple[Any, Any]:
    """(inputs, targets) of the model called `name`."""
    return tensors_of(ratings_batch(SEED, RECOMMENDERS[name]))


def _build(name: str) -> Parts:
    """It trains by Adagrad, because PyTorch's Adam takes no sparse gradients."""
    module = module_of(name)
    optimizer = torch.optim.Adagrad(module.parameters(), lr=0.01)
    return module, F.binary_cross_entropy_with_logits, batch_of(name), optimizer


ncf = partial(_build, "ncf")
ncf_mini = partial(_build, "ncf-mini")

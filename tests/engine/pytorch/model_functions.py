"""Model functions that tests train by name, because worker processes call them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

EXAMPLES, BATCH, FEATURES, CLASSES, WORDS = 50, 4, 6, 3, 11

Parts = tuple[nn.Module, Callable[[Any, Any], torch.Tensor], Any, torch.optim.Optimizer]


def examples() -> TensorDataset:
    """Features with two classes' boundaries, float64."""
    generator = torch.Generator().manual_seed(7)
    features = torch.randn(EXAMPLES, FEATURES, generator=generator, dtype=torch.float64)
    return TensorDataset(features, (features[:, 0] > 0).long() + (features[:, 1] > 0).long())


def dense() -> Parts:
    """Dense layers in float64, on shuffled data."""
    module = nn.Sequential(nn.Linear(FEATURES, 7), nn.Tanh(), nn.Linear(7, CLASSES)).double()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01, eps=1e-6)
    return module, nn.functional.cross_entropy, DataLoader(examples(), BATCH, shuffle=True), optimizer


def noisy() -> Parts:
    """Dropout, batch normalization and a frozen layer; SGD has no momentum before its first step."""
    layers = [nn.Linear(FEATURES, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Dropout(0.3), nn.Linear(7, CLASSES)]
    module = nn.Sequential(*layers).double()
    module[4].weight.requires_grad_(False)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    return module, nn.functional.cross_entropy, DataLoader(examples(), BATCH), optimizer


def sparse() -> Parts:
    """A table whose momentum is sparse, on an example batch."""
    module = nn.Sequential(nn.Embedding(WORDS, 5, sparse=True), nn.Flatten(), nn.Linear(10, CLASSES))
    generator = torch.Generator().manual_seed(8)
    batch = torch.randint(WORDS, (BATCH, 2), generator=generator), torch.randint(CLASSES, (BATCH,), generator=generator)
    return module, nn.functional.cross_entropy, batch, torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)


class LookedUp(Dataset[Any]):
    """Words, counted from 1, by example; read many at once."""

    def __init__(self, rows: int) -> None:
        generator = torch.Generator().manual_seed(10)
        self.words = 1 + torch.randint(rows, (EXAMPLES, 2), generator=generator)
        self.targets = torch.randint(CLASSES, (EXAMPLES,), generator=generator)

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, example: int) -> Any:
        raise AssertionError(f"example {example} is read alone")

    def __getitems__(self, examples: list[int]) -> list[Any]:
        return [(self.words[example], self.targets[example]) for example in examples]


class FromOne(nn.Embedding):
    """A table whose rows are counted from 1; it changes its batch, as modules may."""

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return super().forward(words.sub_(1))


def looked_up() -> Parts:
    """A table whose batches look up other rows."""
    rows = 10 * WORDS
    module = nn.Sequential(FromOne(rows, 5, sparse=True), nn.Flatten(), nn.Linear(10, CLASSES))
    data = DataLoader(LookedUp(rows), BATCH)
    return module, nn.functional.cross_entropy, data, torch.optim.SGD(module.parameters(), lr=0.1)


class CountingOptimizer(torch.optim.Optimizer):
    """Divides the learning rate by a count of its own, and halves a setting of the group in each step."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1, "share": 1.0})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["count"] = state.get("count", 0) + 1
                with torch.no_grad():
                    parameter.sub_(parameter.grad, alpha=group["lr"] * (1 + group["share"]) / state["count"])
            group["share"] /= 2


def counted() -> Parts:
    """Half-precision parameters, and an optimizer that keeps Python numbers."""
    module = nn.Linear(FEATURES, CLASSES).bfloat16()
    generator = torch.Generator().manual_seed(9)
    inputs = torch.randn(BATCH, FEATURES, generator=generator).bfloat16()
    batch = inputs, torch.randint(CLASSES, (BATCH,), generator=generator)
    return module, _loss, batch, CountingOptimizer(module.parameters())


def _loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs.float(), targets)


class ListingOptimizer(torch.optim.SGD):
    """Keeps a list, which a checkpoint does not hold."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["past"] = []


def listing() -> Parts:
    module = nn.Linear(FEATURES, CLASSES).double()
    optimizer = ListingOptimizer(module.parameters(), 0.1)
    return module, nn.functional.cross_entropy, DataLoader(examples(), BATCH), optimizer


LOOKED_UP = f"{__name__}:looked_up"
MODELS = {name: f"{__name__}:{name}" for name in ("dense", "noisy", "sparse", "counted")}

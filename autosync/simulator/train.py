"""Training one model on weighted examples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch

from autosync.simulator.examples import Examples
from autosync.simulator.loss import Pairs, ranking_loss, regression_loss, told_apart

__all__ = ["TrainingSettings", "bootstrap_weights", "one_thread", "train", "training_pairs"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread meanwhile: models this small wait for threads, and sums depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class TrainingSettings:
    """How an ensemble of `members` models is trained, each for `steps` steps of Adam.

    `prior_deviation` is how big a parameter may well be, for weight decay; records outweigh it as they get many.
    `ranking_weight` is the ranking loss' over the regression loss'; `pairs` bounds the ranked pairs, drawn at random
    when there are more.
    """

    members: int = 5
    steps: int = 200
    learning_rate: float = 0.03
    ranking_weight: float = 0.3
    prior_deviation: float = 0.015
    pairs: int = 20_000

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def training_pairs(examples: Examples, settings: TrainingSettings, generator: torch.Generator) -> Pairs:
    """The pairs to rank, at most `settings.pairs` of them."""
    faster, slower = told_apart(examples)
    if len(faster) > settings.pairs:
        chosen = torch.randperm(len(faster), generator=generator)[: settings.pairs]
        faster, slower = faster[chosen], slower[chosen]
    return faster, slower


def bootstrap_weights(count: int, generator: torch.Generator) -> torch.Tensor:
    """How often each of `count` records is drawn in `count` draws with replacement, float64 (count,)."""
    drawn = torch.randint(count, (count,), generator=generator)
    return torch.bincount(drawn, minlength=count).to(torch.float64)


def train(
    model: torch.nn.Module, examples: Examples, pairs: Pairs, weights: torch.Tensor, settings: TrainingSettings
) -> None:
    """Fit `model`, which maps the examples' features to residuals over their base, with Adam on all examples at once.

    Nothing here is random: same arguments, same parameters.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=settings.steps)
    count = len(examples.measured)
    for _ in range(settings.steps):
        optimizer.zero_grad()
        predicted = examples.base + model(examples.features)
        fit = regression_loss(predicted, examples.measured, weights)
        ranking = ranking_loss(predicted, pairs, weights)
        parameters = torch.stack([(each**2).sum() for each in model.parameters()]).sum()
        prior = parameters / (2 * settings.prior_deviation**2 * count)
        torch.autograd.backward(fit + settings.ranking_weight * ranking + prior)
        optimizer.step()
        schedule.step()

"""How wrong predicted log seconds are: as a ranking, and as numbers.

Notation: s predicted and y measured log seconds. The ranking loss is RankNet's (Burges et al. 2005): for every pair
(i, j) with y_i < y_j, log(1 + exp(-(s_j - s_i) / TEMPERATURE)). Pairs that the measurement cannot tell apart are left
out.
"""

from __future__ import annotations

import torch

from autosync.simulator.examples import Targets

__all__ = [
    "ERROR",
    "OUTLIER",
    "TEMPERATURE",
    "Pairs",
    "chosen_pairs",
    "loss",
    "pair_weights",
    "ranking_loss",
    "regression_loss",
]

TEMPERATURE = 0.05
"""Log seconds (about 5 %) over which a wrong order stops being a near miss."""
ERROR = 0.05
OUTLIER = 3.0
LEAST_WEIGHT = 1e-9

Pairs = tuple[torch.Tensor, torch.Tensor]
"""Positions of the faster and of the slower record, int64 (p,) each."""


def chosen_pairs(targets: Targets, most: int, generator: torch.Generator) -> Pairs:
    """The pairs to rank, at most so many of them."""
    faster, slower = targets.told_apart
    if len(faster) > most:
        chosen = torch.randperm(len(faster), generator=generator)[:most]
        faster, slower = faster[chosen], slower[chosen]
    return faster, slower


def loss(predicted: torch.Tensor, targets: Targets, pairs: Pairs, ranking_weight: float) -> torch.Tensor:
    """The scalar that training makes small."""
    return regression_loss(predicted, targets) + ranking_weight * ranking_loss(predicted, targets, pairs)


def ranking_loss(predicted: torch.Tensor, targets: Targets, pairs: Pairs) -> torch.Tensor:
    """The weighted mean over `pairs`, a scalar; 0 without any."""
    faster, slower = pairs
    weights = pair_weights(targets, pairs).to(predicted.dtype)
    losses = torch.nn.functional.softplus((predicted[faster] - predicted[slower]) / TEMPERATURE)
    return (weights * losses).sum() / weights.sum().clamp(min=LEAST_WEIGHT)


def regression_loss(predicted: torch.Tensor, targets: Targets) -> torch.Tensor:
    """The weighted mean of Huber's loss of the errors, counted in `ERROR`s, a scalar."""
    weights, measured = targets.weights.to(predicted.dtype), targets.measured.to(predicted.dtype)
    losses = torch.nn.functional.huber_loss(predicted / ERROR, measured / ERROR, delta=OUTLIER, reduction="none")
    return (weights * losses).sum() / weights.sum()


def pair_weights(targets: Targets, pairs: Pairs) -> torch.Tensor:
    """A pair counts as much as the lighter of its records, float64 (p,)."""
    faster, slower = pairs
    return torch.minimum(targets.weights[faster], targets.weights[slower])

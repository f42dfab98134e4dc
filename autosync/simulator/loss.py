"""How wrong predicted log seconds are: as a ranking, and as numbers.

Notation: s predicted and y measured log seconds, w weights of records. The ranking loss is RankNet's (Burges et al.
2005): for every pair (i, j) with y_i < y_j, log(1 + exp(-(s_j - s_i) / TEMPERATURE)). Pairs that the measurement
cannot tell apart are left out.
"""

from __future__ import annotations

import torch

from autosync.simulator.examples import Examples

__all__ = ["Pairs", "ranking_loss", "regression_loss", "told_apart"]

TEMPERATURE = 0.05
"""Log seconds (about 5 %) over which a wrong order stops being a near miss."""
ERROR = 0.05
OUTLIER = 3.0
SURE = 2.0

Pairs = tuple[torch.Tensor, torch.Tensor]
"""Positions of the faster and of the slower record, int64 (p,) each."""


def told_apart(examples: Examples) -> Pairs:
    """Pairs of one family whose measured times differ by more than `SURE` standard errors of the difference."""
    difference = examples.measured[None, :] - examples.measured[:, None]
    error = (examples.errors[None, :] ** 2 + examples.errors[:, None] ** 2).sqrt()
    same_family = examples.families[None, :] == examples.families[:, None]
    faster, slower = torch.nonzero(same_family & (difference > SURE * error), as_tuple=True)
    return faster, slower


def ranking_loss(predicted: torch.Tensor, pairs: Pairs, weights: torch.Tensor) -> torch.Tensor:
    """Mean over `pairs`, a pair weighing the product of its records' weights; 0 without pairs. Scalar."""
    faster, slower = pairs
    pair_weights = weights[faster] * weights[slower]
    losses = torch.nn.functional.softplus((predicted[faster] - predicted[slower]) / TEMPERATURE)
    return (pair_weights * losses).sum() / pair_weights.sum().clamp(min=1.0)


def regression_loss(predicted: torch.Tensor, measured: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted mean of Huber's loss of the errors, counted in `ERROR`s. Scalar."""
    losses = torch.nn.functional.huber_loss(predicted / ERROR, measured / ERROR, reduction="none", delta=OUTLIER)
    return (weights * losses).sum() / weights.sum()

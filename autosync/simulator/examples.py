"""Records as tensors: features, what the base simulator says, what was measured, how sure that is.

Notation: n records, f features. A record's family is its model and cluster; only records of one family are ranked
against each other.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from autosync.cost import FEATURES, Coefficients, Simulator, feature_table, positions_by_family
from autosync.spec import RuntimeRecord

__all__ = ["Examples", "Normalization", "examples_of"]

LEAST_ERROR = 0.01
"""Between two trials of one strategy, log medians differ by this much even if each trial's steps agree."""
ERROR_OF_ONE_STEP = 0.05
MEDIAN_OVER_MEAN_ERROR = 1.2533
"""The standard error of a median over that of a mean, for normal errors: sqrt(pi / 2)."""
LARGEST_NORMALIZED = 3.0
LEAST_SCALE = 0.05


@dataclass(frozen=True, eq=False)
class Examples:
    """`features` (n, f), `base`, `measured`, `errors` (standard errors) in log seconds (n,), all float64.

    `families` int64 (n,).
    """

    features: torch.Tensor
    base: torch.Tensor
    measured: torch.Tensor
    errors: torch.Tensor
    families: torch.Tensor

    def with_features(self, features: torch.Tensor) -> Examples:
        return replace(self, features=features)


@dataclass(frozen=True, eq=False)
class Normalization:
    """Features minus `mean`, over `scale`, both float64 (f,), kept within `LARGEST_NORMALIZED`."""

    mean: torch.Tensor
    scale: torch.Tensor

    @classmethod
    def of_features(cls, features: torch.Tensor) -> Normalization:
        """Zero mean and unit deviation on `features` (n, f); a column that hardly changes is not blown up to that."""
        return cls(features.mean(dim=0), features.std(dim=0, correction=0).clamp(min=LEAST_SCALE))

    def __call__(self, features: torch.Tensor) -> torch.Tensor:
        normalized = (features - self.mean) / self.scale
        return normalized.clamp(-LARGEST_NORMALIZED, LARGEST_NORMALIZED)


def examples_of(records: Sequence[RuntimeRecord], base: Simulator, coefficients: Coefficients) -> Examples:
    """One example a record, in order. All must hold a step time."""
    families = positions_by_family(records)
    features, predicted = np.empty((len(records), len(FEATURES))), np.empty(len(records))
    numbers = np.empty(len(records), dtype=np.int64)
    for number, ((model, cluster), positions) in enumerate(families.items()):
        strategies = [records[position].strategy for position in positions]
        features[positions] = feature_table(model, cluster, strategies, coefficients)
        predicted[positions] = base.predict(model, cluster, strategies)
        numbers[positions] = number
    return Examples(
        torch.from_numpy(features),
        torch.from_numpy(predicted),
        torch.tensor([np.log(record.median_seconds or np.nan) for record in records], dtype=torch.float64),
        torch.tensor([_standard_error(record.step_seconds) for record in records], dtype=torch.float64),
        torch.from_numpy(numbers),
    )


def _standard_error(step_seconds: Sequence[float]) -> float:
    """Of the logarithm of the median."""
    if len(step_seconds) < 2:
        return ERROR_OF_ONE_STEP
    spread = statistics.stdev(np.log(step_seconds).tolist())
    return max(LEAST_ERROR, MEDIAN_OVER_MEAN_ERROR * spread / len(step_seconds) ** 0.5)

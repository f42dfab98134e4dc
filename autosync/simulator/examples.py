"""Records as examples: inputs, what the base simulator says, what was measured, how sure that is.

Notation: n records. A record's family is its model and cluster; only records of one family that were timed on one
occasion are ranked against each other.
"""

from __future__ import annotations

import hashlib
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from autosync.simulator.inputs import Inputs
from autosync.simulator.view import View
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord
from autosync.stats.occasions import drifts_of, occasions_of, positions_by_family

FloatArray = npt.NDArray[np.float64]

SURE = 2.0
LEAST_ERROR = 0.01
"""The difference of log medians between two trials of one strategy, even where each trial's steps agree."""
ERROR_OF_ONE_STEP = 0.05
MEDIAN_OVER_MEAN_ERROR = 1.2533
"""The standard error of a median over that of a mean, for normal errors: sqrt(pi / 2)."""


@dataclass(frozen=True, eq=False)
class Targets:
    """`base`, `measured`, `errors` (standard errors) in log seconds, `weights`, float64 (n,).

    `measured` is less what the machine drifted by on each occasion. `occasions` int64 (n,) numbers these, each of one
    family. `strategies` int64 (n,) numbers what was timed: records of one strategy in one family share a number.
    """

    base: torch.Tensor
    measured: torch.Tensor
    errors: torch.Tensor
    occasions: torch.Tensor
    strategies: torch.Tensor
    weights: torch.Tensor

    def __len__(self) -> int:
        return len(self.base)

    @cached_property
    def told_apart(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Pairs of one occasion whose measured times differ by more than `SURE` standard errors of the difference.

        Positions of the faster and of the slower record, int64 (p,) each.
        """
        difference = self.measured[None, :] - self.measured[:, None]
        error = (self.errors[None, :] ** 2 + self.errors[:, None] ** 2).sqrt()
        together = self.occasions[None, :] == self.occasions[:, None]
        faster, slower = torch.nonzero(together & (difference > SURE * error), as_tuple=True)
        return faster, slower

    def take(self, places: Sequence[int]) -> Targets:
        chosen = torch.as_tensor(places, dtype=torch.int64)
        return Targets(*(getattr(self, each.name)[chosen] for each in fields(self)))


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs of n records, and what is to be learned of them."""

    inputs: Inputs
    targets: Targets

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, places: Sequence[int]) -> Examples:
        return Examples(self.inputs.take(places), self.targets.take(places))


def examples_of(records: Sequence[RuntimeRecord], view: View, weights: FloatArray | None = None) -> Examples:
    """One example a record, in order; a strategy that was timed often is encoded once. All must hold a step time.

    `weights` are float64 (n,), 1 each unless given.
    """
    weights = np.ones(len(records)) if weights is None else weights
    numbers = np.empty(len(records), dtype=np.int64)
    measured = np.log(np.array([record.median_seconds for record in records], dtype=np.float64))
    occasions = occasions_of(records)
    encoded: list[Inputs] = []
    predicted: list[np.ndarray] = []
    known = 0
    for (model, cluster), positions in positions_by_family(records).items():
        first: dict[str, int] = {}
        for position in positions:
            numbers[position] = known + first.setdefault(records[position].strategy.digest, len(first))
        by_digest = {records[position].strategy.digest: records[position].strategy for position in reversed(positions)}
        inputs, base = view.of(model, cluster, [by_digest[digest] for digest in first])
        encoded.append(inputs)
        predicted.append(base)
        over = measured[positions] - base[numbers[positions] - known]
        measured[positions] -= drifts_of(over, occasions[positions], weights[positions])
        known += len(first)
    targets = Targets(
        torch.from_numpy(np.concatenate(predicted)[numbers]),
        torch.from_numpy(measured),
        torch.tensor([_standard_error(record.step_seconds) for record in records], dtype=torch.float64),
        torch.from_numpy(occasions),
        torch.from_numpy(numbers),
        torch.from_numpy(weights),
    )
    return Examples(_joined(encoded).take(numbers.tolist()), targets)


def family_key(model: ModelSpec, cluster: ClusterSpec) -> str:
    """A name of the family, the same for a cluster probed twice."""
    return f"{model.digest}/{cluster.digest}"


def family_counts(records: Sequence[RuntimeRecord]) -> dict[str, int]:
    """How many records there are of each family."""
    return dict(Counter(family_key(record.model, record.cluster) for record in records))


def data_digest(records: Sequence[RuntimeRecord]) -> str:
    """Identity of what was learned from, whatever its order: what was timed, and what that took."""
    lines = sorted(
        f"{family_key(each.model, each.cluster)}/{each.strategy.digest}/{each.step_seconds!r}" for each in records
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _joined(parts: Sequence[Inputs]) -> Inputs:
    return Inputs(
        torch.cat([each.pooled for each in parts]),
        tuple(one for each in parts for one in each.variables),
        tuple(one for each in parts for one in each.graphs),
    )


def _standard_error(step_seconds: Sequence[float]) -> float:
    """The standard error of the logarithm of the median."""
    if len(step_seconds) < 2:
        return ERROR_OF_ONE_STEP
    spread = statistics.stdev(np.log(step_seconds).tolist())
    return max(LEAST_ERROR, MEDIAN_OVER_MEAN_ERROR * spread / len(step_seconds) ** 0.5)

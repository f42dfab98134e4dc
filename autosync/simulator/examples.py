"""Records as training examples: inputs, the base simulator's prediction, the measured time and its standard error.

Notation: n records. A record's family is its model and cluster. Only records of the same family that were timed on the
same occasion are ranked against each other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch

from autosync.simulator.inputs import Inputs
from autosync.simulator.stored import AnyInputs
from autosync.simulator.view import View
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.stats.drift import Timed, drifts_of
from autosync.stats.noise import error_of_median

SURE = 2.0
LEAST_ERROR = 0.01
"""The difference of log medians between two trials of a strategy, even if the steps within each trial agree."""
ERROR_OF_ONE_STEP = 0.05


@dataclass(frozen=True, eq=False)
class Targets:
    """The values to learn, for n records."""

    base: torch.Tensor
    """The base simulator's log seconds, float64 (n,)."""
    measured: torch.Tensor
    """The measured log seconds without the machine's drift on each occasion, float64 (n,)."""
    errors: torch.Tensor
    """Standard errors of `measured`, in log seconds, float64 (n,)."""
    occasions: torch.Tensor
    """The number of each record's occasion, int64 (n,). Every occasion belongs to one family."""
    strategies: torch.Tensor
    """The number of each record's strategy within its family, int64 (n,)."""
    weights: torch.Tensor
    """The weight of each record, float64 (n,)."""

    def __len__(self) -> int:
        return len(self.base)

    @cached_property
    def distinguishable_pairs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Pairs of one occasion whose measured times differ by more than `SURE` standard errors of the difference.

        Returns the positions of the faster and of the slower record, int64 (p,) each.
        """
        difference = self.measured[None, :] - self.measured[:, None]
        error = (self.errors[None, :] ** 2 + self.errors[:, None] ** 2).sqrt()
        together = self.occasions[None, :] == self.occasions[:, None]
        faster, slower = torch.nonzero(together & (difference > SURE * error), as_tuple=True)
        return faster, slower

    def take(self, places: Sequence[int]) -> Targets:
        chosen = torch.as_tensor(places, dtype=torch.int64)
        return Targets(*(getattr(self, field.name)[chosen] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Examples:
    """The inputs and targets of n records."""

    inputs: AnyInputs
    targets: Targets

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, places: Sequence[int]) -> Examples:
        return Examples(self.inputs.take(places), self.targets.take(places))


def examples_of(timed: Timed, view: View) -> Examples:
    """Return one example per record, in order. A strategy with several records is encoded once.

    `streamed.py` does the same for records that arrive in blocks.
    """
    numbers, measured = np.empty(len(timed.records), dtype=np.int64), timed.log_seconds.copy()
    encoded: list[Inputs] = []
    predicted: list[np.ndarray] = []
    known = 0
    for model, cluster, places, strategies in timed.families():
        first: dict[str, Strategy] = {}
        for strategy in strategies:
            first.setdefault(strategy.digest, strategy)
        number_of = {digest: number for number, digest in enumerate(first)}
        indices = np.array([number_of[strategy.digest] for strategy in strategies])
        inputs, base = view.of(model, cluster, list(first.values()))
        encoded.append(inputs)
        predicted.append(base)
        numbers[places] = known + indices
        measured[places] -= drifts_of(measured[places] - base[indices], timed.occasions[places], timed.weights[places])
        known += len(first)
    targets = Targets(
        torch.from_numpy(np.concatenate(predicted)[numbers]),
        torch.from_numpy(measured),
        torch.tensor([standard_error(record.step_seconds) for record in timed.records], dtype=torch.float64),
        torch.from_numpy(timed.occasions),
        torch.from_numpy(numbers),
        torch.from_numpy(timed.weights),
    )
    return Examples(_concatenate(encoded).take(numbers.tolist()), targets)


def family_key(model: ModelSpec, cluster: ClusterSpec) -> str:
    """Return the family's name, which is the same for a cluster probed twice."""
    return f"{model.digest}/{cluster.digest}"


def family_counts(records: Sequence[RuntimeRecord]) -> dict[str, int]:
    """Count the records of each family."""
    return dict(Counter(family_key(record.model, record.cluster) for record in records))


def data_digest(records: Sequence[RuntimeRecord]) -> str:
    """Return a digest of the training records, independent of their order: strategies and step times."""
    lines = sorted(map(line_of, records))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def line_of(record: RuntimeRecord) -> str:
    """Return the training content of a record as text."""
    return f"{family_key(record.model, record.cluster)}/{record.strategy.digest}/{record.step_seconds!r}"


def _concatenate(parts: Sequence[Inputs]) -> Inputs:
    return Inputs(
        torch.cat([part.pooled for part in parts]),
        tuple(decision for part in parts for decision in part.variables),
        tuple(graph for part in parts for graph in part.graphs),
    )


def standard_error(step_seconds: Sequence[float]) -> float:
    """Return the standard error of the logarithm of the median step."""
    return max(LEAST_ERROR, error_of_median(step_seconds)) if len(step_seconds) > 1 else ERROR_OF_ONE_STEP

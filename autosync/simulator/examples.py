"""Records as examples: inputs, what the base simulator says, what was measured, how sure that is.

Notation: n records. A record's family is its model and cluster; only records of one family that were timed on one
occasion are ranked against each other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from autosync.simulator.inputs import Inputs
from autosync.simulator.stored import AnyInputs
from autosync.simulator.view import View
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.stats.noise import error_of_median
from autosync.stats.occasions import Timed, drifts_of

FloatArray = npt.NDArray[np.float64]

SURE = 2.0
LEAST_ERROR = 0.01
"""The difference of log medians between two trials of one strategy, even where each trial's steps agree."""
ERROR_OF_ONE_STEP = 0.05


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

    inputs: AnyInputs
    targets: Targets

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, places: Sequence[int]) -> Examples:
        return Examples(self.inputs.take(places), self.targets.take(places))


def examples_of(timed: Timed, view: View) -> Examples:
    """One example a record, in order; a strategy that was timed often is encoded once. `streamed.py` does the same of
    records that come in blocks."""
    numbers, measured = np.empty(len(timed.records), dtype=np.int64), timed.log_seconds.copy()
    encoded: list[Inputs] = []
    predicted: list[np.ndarray] = []
    known = 0
    for model, cluster, places, strategies in timed.families():
        first: dict[str, Strategy] = {}
        for each in strategies:
            first.setdefault(each.digest, each)
        number_of = {digest: number for number, digest in enumerate(first)}
        own = np.array([number_of[each.digest] for each in strategies])
        inputs, base = view.of(model, cluster, list(first.values()))
        encoded.append(inputs)
        predicted.append(base)
        numbers[places] = known + own
        measured[places] -= drifts_of(measured[places] - base[own], timed.occasions[places], timed.weights[places])
        known += len(first)
    targets = Targets(
        torch.from_numpy(np.concatenate(predicted)[numbers]),
        torch.from_numpy(measured),
        torch.tensor([standard_error(record.step_seconds) for record in timed.records], dtype=torch.float64),
        torch.from_numpy(timed.occasions),
        torch.from_numpy(numbers),
        torch.from_numpy(timed.weights),
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
    lines = sorted(map(line_of, records))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def line_of(record: RuntimeRecord) -> str:
    """What a record teaches, as text."""
    return f"{family_key(record.model, record.cluster)}/{record.strategy.digest}/{record.step_seconds!r}"


def _joined(parts: Sequence[Inputs]) -> Inputs:
    return Inputs(
        torch.cat([each.pooled for each in parts]),
        tuple(one for each in parts for one in each.variables),
        tuple(one for each in parts for one in each.graphs),
    )


def standard_error(step_seconds: Sequence[float]) -> float:
    """The standard error of the logarithm of their median."""
    return max(LEAST_ERROR, error_of_median(step_seconds)) if len(step_seconds) > 1 else ERROR_OF_ONE_STEP

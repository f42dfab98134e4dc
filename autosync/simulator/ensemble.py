"""An ensemble: each member is trained on most of the records, and is checked on the records that it left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from autosync.numeric import FloatArray
from autosync.simulator.examples import Examples
from autosync.simulator.inputs import Normalization
from autosync.simulator.networks import EnsembleMember, Network
from autosync.simulator.settings import TrainingSettings
from autosync.simulator.stored import AnyInputs
from autosync.simulator.train import FitTask, single_thread
from autosync.spec.codec import Noun
from autosync.stats.drift import members_of

MOST_HELD = 4096
"""The most held-out records that decide when to stop. Their pairs are ranked, and the number of pairs grows
quadratically.
"""


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trained members with the normalization of their inputs."""

    members: tuple[EnsembleMember, ...]
    normalization: Normalization

    def residuals(self, inputs: AnyInputs) -> FloatArray:
        """Return the residuals that each member adds to the base's log seconds, float64 (members, n)."""
        with single_thread():
            residuals = np.zeros((len(self.members), len(inputs)))
            for piece, places in inputs.pieces():
                normalized = self.normalization(piece)
                residuals[:, places.numpy()] = np.stack([member.residuals(normalized) for member in self.members])
        return inputs.workers.all_reduce(torch.from_numpy(residuals)).numpy()


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Out-of-fold records: each is predicted only by members that were not trained on it."""

    errors: FloatArray
    """The error of each prediction, in log seconds (n,)."""
    spread: FloatArray
    """The standard deviation over the members, in log seconds (n,)."""
    weights: FloatArray
    """The weight of each record, (n,)."""


@dataclass(frozen=True, eq=False)
class EnsembleFit:
    """The inputs of an ensemble's fit."""

    network: Network
    settings: TrainingSettings
    examples: Examples
    validation: Examples | None
    """Records that decide when to stop and calibrate the uncertainty; None to use the records that each member leaves
    out.
    """
    start: Ensemble | None
    """The ensemble to continue from, with its normalization; None to start a new one."""


def train_ensemble(fit: EnsembleFit, generator: torch.Generator) -> tuple[Ensemble, HeldOut]:
    """Train an ensemble. Each member leaves out another share of the strategies and starts from another seed."""
    examples, settings, start = fit.examples, fit.settings, fit.start
    normalization = start.normalization if start else examples.inputs.normalization()
    known = Examples(examples.inputs.normalize(normalization), examples.targets)
    validation = fit.validation and _normalize_few(fit.validation, normalization)
    folds = _folds(examples.targets.strategies, settings.members, generator)
    members, held_places = list[EnsembleMember](), list[list[int]]()
    with single_thread():
        for number in range(settings.members):
            left_out = torch.nonzero(folds == number)[:, 0].tolist()
            remaining = torch.nonzero(folds != number)[:, 0].tolist()
            if not remaining:
                left_out, remaining = [], left_out
            task = FitTask(known.take(remaining), validation or _few(known.take(left_out)), settings, generator)
            first = start.members[number % len(start.members)] if start else None
            members.append(fit.network.train(task, first))
            held_places.append(left_out)
    ensemble = Ensemble(tuple(members), normalization)
    if fit.validation is not None:
        residuals = ensemble.residuals(fit.validation.inputs)
        targets = fit.validation.targets
        missed = (targets.measured - targets.base).numpy() - residuals.mean(axis=0)
        return ensemble, HeldOut(missed, residuals.std(axis=0), targets.weights.numpy())
    return ensemble, _left_out(ensemble, examples, held_places)


def _normalize_few(validation: Examples, normalization: Normalization) -> Examples:
    return _few(Examples(validation.inputs.normalize(normalization), validation.targets))


def _few(held: Examples) -> Examples:
    """Return `held`, or an evenly spaced part of it if it has more records than the stop needs; in memory."""
    count = min(len(held), MOST_HELD)
    few = held if count == len(held) else held.take([index * len(held) // count for index in range(count)])
    return Examples(few.inputs.in_memory(), few.targets)


def _left_out(ensemble: Ensemble, examples: Examples, places: list[list[int]]) -> HeldOut:
    """Return the errors of each record by the member that left it out."""
    residuals, targets = ensemble.residuals(examples.inputs), examples.targets
    missed = (targets.measured - targets.base).numpy() - residuals
    errors = [missed[number, chosen] for number, chosen in enumerate(places)]
    spread = [residuals.std(axis=0)[chosen] for chosen in places]
    weights = [targets.weights.numpy()[chosen] for chosen in places]
    return HeldOut(np.concatenate(errors), np.concatenate(spread), np.concatenate(weights))


def _folds(strategies: torch.Tensor, members: int, generator: torch.Generator) -> torch.Tensor:
    """Return the member that leaves each record out, int64 (n,). All records of a strategy have the same member."""
    count = int(strategies.max()) + 1
    fold = torch.randperm(count, generator=generator) % members
    return fold[strategies]


PRIOR_SPREAD = 0.3
"""Standard deviation of a base simulator's error, in log seconds, before any measurement."""
COVERED, NORMAL_QUANTILE = 0.9, 1.645
"""A share of a normal distribution, 90 %, and the number of standard deviations within which it lies."""
ENOUGH = 20
"""The least weight of held-out records that determines the quantile."""
EARLIER_RECORDS = 10
"""An earlier fit's estimate of the error weighs as much as this number of records."""


@dataclass(frozen=True)
class Uncertainty(Noun, what="Spread", partial=True):
    """Standard deviations of predictions, in log seconds."""

    error: float = PRIOR_SPREAD / 2**0.5
    """The error of a prediction that all members agree on."""
    scale: float = 1.0
    """A factor on `error` and on the members' deviation."""
    family_error: float = PRIOR_SPREAD / 2**0.5
    """The error of the level of a model and cluster without records."""
    families: Mapping[str, int] = field(default_factory=dict)
    """The number of records by family."""

    def of(self, members: FloatArray, family: str) -> FloatArray:
        """Return the standard deviation of one family's predictions, float64 (n,), for members that deviate by
        `members`.
        """
        level = self.family_error / (1 + self.families.get(family, 0)) ** 0.5
        return np.hypot(self.scale * np.hypot(members, self.error), level)


def calibrate_spread(
    held: HeldOut, families: Mapping[str, int], level: float | None, earlier: Uncertainty | None
) -> Uncertainty:
    """Return an uncertainty that agrees with the held-out records; `level` is the new `family_error`, or None to keep
    it.

    A few records change the `earlier` estimate, or the prior, only a little.
    """
    known = earlier or Uncertainty()
    weight = EARLIER_RECORDS if earlier else 1
    count = float(held.weights.sum())
    squares = weight * (known.scale * known.error) ** 2 + (held.weights * held.errors**2).sum()
    error = float((squares / (weight + count)) ** 0.5)
    scale = 1.0
    if count >= ENOUGH:
        scores, share = np.abs(held.errors) / np.hypot(held.spread, error), min(1.0, COVERED * (count + 1) / count)
        reached = np.quantile(scores, share, method="inverted_cdf", weights=held.weights)
        scale = float(reached) / NORMAL_QUANTILE
    counts = {name: families.get(name, 0) + known.families.get(name, 0) for name in {**known.families, **families}}
    return Uncertainty(error, scale, known.family_error if level is None else level, counts)


def family_error(residuals: FloatArray, occasions: npt.NDArray[np.int64]) -> float:
    """Return the error of a family's level: from the means of the base's errors (n,) on each occasion, with the prior
    as one more mean.
    """
    means = [float(residuals[places].mean()) for places in members_of(occasions)]
    return float(((Uncertainty.family_error**2 + np.square(means).sum()) / (1 + len(means))) ** 0.5)

"""An ensemble: members that each learned from most of the records, and how they do on those that they left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from autosync.simulator.examples import Examples
from autosync.simulator.inputs import Normalization
from autosync.simulator.networks import Member, Network
from autosync.simulator.settings import TrainingSettings
from autosync.simulator.stored import AnyInputs
from autosync.simulator.train import Lesson, one_thread
from autosync.spec.codec import Noun
from autosync.stats.occasions import members_of

FloatArray = npt.NDArray[np.float64]

MOST_HELD = 4096
"""The most held-out records that say when to stop: pairs of them are ranked, which are as many squared."""


@dataclass(frozen=True, eq=False)
class Ensemble:
    members: tuple[Member, ...]
    normalization: Normalization

    def residuals(self, inputs: AnyInputs) -> FloatArray:
        """The residuals that each member adds to the base's log seconds, float64 (members, n)."""
        with one_thread():
            found = np.zeros((len(self.members), len(inputs)))
            for piece, places in inputs.pieces():
                normalized = self.normalization(piece)
                found[:, places.numpy()] = np.stack([member.residuals(normalized) for member in self.members])
        return inputs.crew.summed(torch.from_numpy(found)).numpy()


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Records that whoever predicted them had not learned from: errors in log seconds, the members' spread, and how
    much each counts, (n,)."""

    errors: FloatArray
    spread: FloatArray
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Teaching:
    """What an ensemble is made of. `start` is one to go on from, with its normalization; `validation` decides when to
    stop and how sure to be, in place of what each member leaves out."""

    network: Network
    settings: TrainingSettings
    examples: Examples
    validation: Examples | None
    start: Ensemble | None


def taught(teaching: Teaching, generator: torch.Generator) -> tuple[Ensemble, HeldOut]:
    """An ensemble whose members each leave out a share of the strategies, together all, and start from other seeds."""
    examples, settings, start = teaching.examples, teaching.settings, teaching.start
    normalization = start.normalization if start else examples.inputs.normalization()
    known = Examples(examples.inputs.normalized(normalization), examples.targets)
    judged = teaching.validation and _judging(teaching.validation, normalization)
    folds = _folds(examples.targets.strategies, settings.members, generator)
    members, held_places = list[Member](), list[list[int]]()
    with one_thread():
        for number in range(settings.members):
            left_out = torch.nonzero(folds == number)[:, 0].tolist()
            rest = torch.nonzero(folds != number)[:, 0].tolist()
            if not rest:
                left_out, rest = [], left_out
            lesson = Lesson(known.take(rest), judged or _few(known.take(left_out)), settings, generator)
            first = start.members[number % len(start.members)] if start else None
            members.append(teaching.network.train(lesson, first))
            held_places.append(left_out)
    ensemble = Ensemble(tuple(members), normalization)
    if teaching.validation is not None:
        residuals = ensemble.residuals(teaching.validation.inputs)
        targets = teaching.validation.targets
        missed = (targets.measured - targets.base).numpy() - residuals.mean(axis=0)
        return ensemble, HeldOut(missed, residuals.std(axis=0), targets.weights.numpy())
    return ensemble, _left_out(ensemble, examples, held_places)


def _judging(validation: Examples, normalization: Normalization) -> Examples:
    return _few(Examples(validation.inputs.normalized(normalization), validation.targets))


def _few(held: Examples) -> Examples:
    """`held`, or, where it is more than it takes to say when to stop, some of it, evenly spaced; in memory."""
    count = min(len(held), MOST_HELD)
    few = held if count == len(held) else held.take([index * len(held) // count for index in range(count)])
    return Examples(few.inputs.gathered(), few.targets)


def _left_out(ensemble: Ensemble, examples: Examples, places: list[list[int]]) -> HeldOut:
    """The errors of each record by the member that left it out."""
    residuals, targets = ensemble.residuals(examples.inputs), examples.targets
    missed = (targets.measured - targets.base).numpy() - residuals
    errors = [missed[number, chosen] for number, chosen in enumerate(places)]
    spread = [residuals.std(axis=0)[chosen] for chosen in places]
    weights = [targets.weights.numpy()[chosen] for chosen in places]
    return HeldOut(np.concatenate(errors), np.concatenate(spread), np.concatenate(weights))


def _folds(strategies: torch.Tensor, members: int, generator: torch.Generator) -> torch.Tensor:
    """The member that leaves each record out, int64 (n,); records of one strategy go together."""
    count = int(strategies.max()) + 1
    fold = torch.randperm(count, generator=generator) % members
    return fold[strategies]


PRIOR_SPREAD = 0.3
"""Standard deviation of log seconds expected of a base simulator before anything was measured."""
COVERED, NORMAL_QUANTILE = 0.9, 1.645
"""A share of a normal distribution, 90 %, and the standard deviations within which it lies."""
ENOUGH = 20
"""The least weight of held-out records that says what the quantile is."""
EARLIER_RECORDS = 10
"""The number of records that an earlier fit's finding about errors counts as."""


@dataclass(frozen=True)
class Uncertainty(Noun, what="Spread", partial=True):
    """Standard deviations in log seconds: `error` of a prediction that the members agree on, `family_error` of the
    level of a model and cluster that nothing is known of. `scale` multiplies the former; `families` counts records."""

    error: float = PRIOR_SPREAD / 2**0.5
    scale: float = 1.0
    family_error: float = PRIOR_SPREAD / 2**0.5
    families: Mapping[str, int] = field(default_factory=dict)

    def of(self, members: FloatArray, family: str) -> FloatArray:
        """The standard deviation of predictions for one family whose members deviate so much, float64 (n,)."""
        level = self.family_error / (1 + self.families.get(family, 0)) ** 0.5
        return np.hypot(self.scale * np.hypot(members, self.error), level)


def calibrated_spread(
    held: HeldOut, families: Mapping[str, int], level: float | None, earlier: Uncertainty | None
) -> Uncertainty:
    """A spread that held-out records agree with; `level` is the `family_error` found, if it was sought.

    Few records move what was known `earlier`, or the prior, only a little.
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
    """How far a family's level may be off: from the means of the base's errors (n,) on each occasion, and the prior as
    one more."""
    means = [float(residuals[places].mean()) for places in members_of(occasions)]
    return float(((Uncertainty.family_error**2 + np.square(means).sum()) / (1 + len(means))) ** 0.5)

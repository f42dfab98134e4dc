"""Disciplines: the rules of a strategy whose training steps are not all alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autosync.errors import SpecError
from autosync.spec.codec import Noun
from autosync.spec.fidelity import Fidelity
from autosync.spec.quoting import quote

AVERAGED = ("parameters", "gradients")
LATE = ("finish", "stop")
POLICIES = ("elfving", "empirical", "filter", "bandit", "gain", "learned")
IMPUTED = ("truncated", "naive")
MOST_UNLIKE = 64


@dataclass(frozen=True)
class BlockMomentum(Noun, what="Block momentum", partial=True):
    """An outer optimizer: replicas that meet continue from a centre c, which follows their mean with momentum.

    A meeting sets v = momentum v + rate (mean - c) and c = c + v, where v starts at zero (BMUF, Chen and Huo 2016).
    With `nesterov`, replicas continue from c + momentum v: the outer optimizer of DiLoCo (Douillard et al. 2023).
    """

    momentum: float
    rate: float = 1.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise SpecError(f"Block momentum is at least 0 and under 1, not {quote(self.momentum)}.")
        if not 0 < self.rate <= 2:
            raise SpecError(f"The rate of block momentum is over 0 and at most 2, not {quote(self.rate)}.")


@dataclass(frozen=True)
class Elastic(Noun, what="An elastic meeting"):
    """A meeting moves each replica by the share `pull` of its distance to a centre, and the centre by the sum of the
    pulls (EASGD, Zhang, Choromanska and LeCun 2015; `pull` is their alpha).
    """

    pull: float

    def __post_init__(self) -> None:
        if not 0 < self.pull <= 1:
            raise SpecError(f"An elastic meeting's pull is over 0 and at most 1, not {quote(self.pull)}.")


@dataclass(frozen=True)
class Rhythm(Noun, what="A rhythm", partial=True):
    """The steps in which replicas meet; in all other steps each replica applies its own gradient to its own values.

    Exactly one of `steps`, `threshold` and `quantile` is stated.
    """

    steps: int | None = None
    """Replicas meet in every `steps`-th step."""
    threshold: float | None = None
    """Replicas meet after a step in which the smoothed squared norm of any replica's gradient changed by at least this
    share of itself (SelSync, Tyagi and Swany 2023)."""
    averages: str = "parameters"
    """*parameters*: replicas average their values after a local step: local SGD (Stich 2019) and FedAvg. Optimizer
    slots stay local. *gradients*: replicas average the gradients of the step and apply the mean to values that differ
    between replicas and stay different; with a meeting in every step, this is plain training."""
    block: BlockMomentum | None = None
    """Outer optimizer applied to averaged parameters; None for none."""
    elastic: Elastic | None = None
    """Elastic averaging of the parameters; None for plain averaging."""
    quantile: float | None = None
    """Like `threshold`, but the smoothed squared norm must change by at least as much as in this share of the last
    hundred steps."""
    after: int | None = None
    """Replicas meet in each of the first `after` steps (post-local SGD, Lin, Stich, Patel and Jaggi 2020); None for no
    such steps."""

    def __post_init__(self) -> None:
        if sum(criterion is not None for criterion in (self.steps, self.threshold, self.quantile)) != 1:
            raise SpecError("A rhythm has one of 'steps', a 'threshold' and a 'quantile'; give one of them.")
        if self.quantile is not None and not 0 <= self.quantile <= 1:
            raise SpecError(f"A rhythm's quantile is a share from 0 to 1, not {quote(self.quantile)}.")
        if self.after is not None and self.after < 1:
            raise SpecError(f"A rhythm's 'after' is at least 1 step, not {quote(self.after)}.")
        if self.steps is not None and self.steps < 1:
            raise SpecError(f"A rhythm's steps are at least 1, not {quote(self.steps)}.")
        if self.threshold is not None and not 0 <= self.threshold < math.inf:
            raise SpecError(f"A rhythm's threshold is a share of at least 0, not {quote(self.threshold)}.")
        if self.averages not in AVERAGED:
            raise SpecError(f"A rhythm averages one of {', '.join(AVERAGED)}, not {quote(self.averages)}.")
        more = [name for name in ("threshold", "quantile", "block", "elastic") if getattr(self, name) is not None]
        if more and self.averages != "parameters":
            raise SpecError(f"With {quote(more[0])} replicas average parameters, not {self.averages}.")
        if self.block and self.elastic:
            raise SpecError("A rhythm has at most one of 'block' and 'elastic'.")


@dataclass(frozen=True)
class CutOff(Noun, what="A cut-off", partial=True):
    """A step waits for the `first` K replicas to finish and applies the mean of their gradients (K-sync SGD with backup
    workers, Chen, Monga, Bengio and Jozefowicz 2016). Or a `policy` chooses K from the arrival times of earlier steps.

    A policy maximizes gradients per second: K over the time until K replicas have arrived. *elfving* fits one normal
    distribution to all times, *empirical* expects the latest times again, *filter* tracks every replica separately, and
    *bandit* tries counts. *gain* expects times like *empirical*, but maximizes progress per second: the expected
    decrease of the loss with K gradients, given their noise (after DBW, Xu, Neglia and Sebastianelli 2020). *learned*
    fits a model of all replicas' times during training (after BDSGD, Teng and Wood 2018) and acts like *filter* until
    the first fit.

    The time of a straggler that the step did not wait for is unseen. *elfving*, *empirical* and *gain* impute it from
    seen times: with `imputes` "truncated" from those that exceed the wait, with "naive" from all. *learned* treats it
    as censored at the wait, or with "naive" as distributed like all seen times.

    A late replica leaves no trace in the step: no gradient, no local state, no metrics. With `late` "finish", it
    completes its pass and then begins its next one; with "stop", it aborts and begins the next step with the others.
    """

    first: int | None = None
    late: str = "finish"
    policy: str | None = None
    imputes: str = "truncated"

    def __post_init__(self) -> None:
        if (self.first is None) == (self.policy is None):
            raise SpecError("A cut-off has either 'first' or a 'policy'; give one of them.")
        if self.policy is not None and self.policy not in POLICIES:
            raise SpecError(f"A cut-off's policy is one of {', '.join(POLICIES)}, not {quote(self.policy)}.")
        if self.imputes not in IMPUTED:
            raise SpecError(f"A cut-off imputes {' or '.join(IMPUTED)} times, not {quote(self.imputes)}.")
        if self.first is not None and self.first < 1:
            raise SpecError(f"A step waits for at least the first replica, not for {quote(self.first)}.")
        if self.late not in LATE:
            raise SpecError(f"A cut-off's 'late' is one of {', '.join(LATE)}, not {quote(self.late)}.")


@dataclass(frozen=True)
class Loads(Noun, what="Loads", partial=True):
    """Split a step's examples over replicas in proportion to `parts`, so that fast and slow replicas finish together.

    Every example has the same weight in the gradient, no matter which replica computes it.
    """

    parts: tuple[float, ...]
    """A positive number per replica."""
    dead_band: float | None = None
    """If stated, loads begin as `parts` and follow the replicas' times: every replica gets as many examples as it can
    compute in the replicas' mean time, once any load would change by more than this share of itself (Tyagi and Sharma
    2020). None keeps loads constant."""
    least: float = 0.125
    """Smallest load with a dead band, as a multiple of an equal load."""
    most: float = 4.0
    """Largest load with a dead band, as a multiple of an equal load."""
    times: float = 1.0
    """Examples of a step, as a multiple of the batches that replicas would draw without loads."""

    def __post_init__(self) -> None:
        if not self.parts or not all(0 < part < math.inf for part in self.parts):
            raise SpecError(f"Loads have a positive number for each replica, not {quote(list(self.parts))}.")
        if max(self.parts) > MOST_UNLIKE * min(self.parts):
            raise SpecError(f"The largest load is at most {MOST_UNLIKE} times the smallest: {quote(list(self.parts))}.")
        if self.dead_band is not None and not 0 < self.dead_band < 1:
            raise SpecError(f"The dead band of loads is a share over 0 and under 1, not {quote(self.dead_band)}.")
        if not 1 / MOST_UNLIKE <= self.least <= 1 <= self.most <= MOST_UNLIKE:
            raise SpecError(
                f"Loads are {1 / MOST_UNLIKE:g} to {MOST_UNLIKE} times an equal one, 'least' at most 1 and 'most' at "
                f"least 1, not from {quote(self.least)} to {quote(self.most)}."
            )
        if not 1 / MOST_UNLIKE <= self.times <= MOST_UNLIKE:
            raise SpecError(
                f"A step has {1 / MOST_UNLIKE:g} to {MOST_UNLIKE} times the examples, not {quote(self.times)} times."
            )

    @property
    def shares(self) -> tuple[float, ...]:
        """The parts as shares of all examples."""
        return tuple(part / sum(self.parts) for part in self.parts)

    @property
    def largest_share(self) -> float:
        """The largest share of all examples that a replica can be assigned."""
        return max(self.shares) if self.dead_band is None else max(*self.shares, min(1.0, self.most / len(self.parts)))


@dataclass(frozen=True)
class Discipline(Noun, what="A discipline", partial=True):
    """When replicas meet, which replicas a step waits for, which ratio top-k keeps, and how examples are split.

    A part that is None is plain: replicas meet in all steps, a step waits for all replicas, top-k keeps the
    compressor's ratio, and all replicas compute equally many examples.
    """

    rhythm: Rhythm | None = None
    waits: CutOff | None = None
    fidelity: Fidelity | None = None
    loads: Loads | None = None

    @property
    def changes_statistics(self) -> bool:
        """Whether the discipline changes the numbers of training; how equally weighted examples are split does not."""
        return any((self.rhythm, self.waits, self.fidelity, self.loads and self.loads.times != 1))

    def __post_init__(self) -> None:
        if self.waits and self.rhythm:
            raise SpecError(
                "A discipline has one of 'rhythm' and 'waits': replicas that do not meet do not wait for each other."
            )
        if self.rhythm and self.loads and self.loads.dead_band is not None:
            raise SpecError(
                "Loads that follow the replicas' times are for replicas that meet in every step; leave out the "
                "rhythm, or the dead band."
            )


PLAIN = Discipline()
"""Every replica computes a batch in every step, and all meet in every step."""

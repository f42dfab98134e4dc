"""A discipline: what a strategy does over time, where the steps of training are not all alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autosync.errors import SpecError
from autosync.spec.codec import Noun
from autosync.spec.fidelity import Fidelity
from autosync.spec.quoting import quoted

AVERAGED = ("parameters", "gradients")
LATE = ("finish", "stop")
POLICIES = ("elfving", "empirical", "filter", "bandit", "gain", "learned")
IMPUTED = ("truncated", "naive")
MOST_UNLIKE = 64


@dataclass(frozen=True)
class BlockMomentum(Noun, what="Block momentum", partial=True):
    """Replicas that meet go on from a centre c, which moves towards their mean with a speed v, zero at first:
    v = momentum v + rate (mean - c), c = c + v (BMUF, Chen and Huo 2016).

    With `nesterov` they go on from c + momentum v: the outer optimizer of DiLoCo (Douillard et al. 2023).
    """

    momentum: float
    rate: float = 1.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise SpecError(f"Block momentum is at least 0 and under 1, not {quoted(self.momentum)}.")
        if not 0 < self.rate <= 2:
            raise SpecError(f"The rate of block momentum is over 0 and at most 2, not {quoted(self.rate)}.")


@dataclass(frozen=True)
class Elastic(Noun, what="An elastic meeting"):
    """Replicas that meet go `pull` of the way to a centre, and it moves by the sum of their pulls (EASGD, Zhang,
    Choromanska and LeCun 2015, whose alpha this is).
    """

    pull: float

    def __post_init__(self) -> None:
        if not 0 < self.pull <= 1:
            raise SpecError(f"An elastic meeting's pull is over 0 and at most 1, not {quoted(self.pull)}.")


@dataclass(frozen=True)
class Rhythm(Noun, what="A rhythm", partial=True):
    """In which steps replicas meet; in the others each applies its own gradient to its own values.

    That is in every `steps`-th one; or, with a `threshold`, after a step in which the smoothed squared norm of any
    replica's gradient has changed by at least this share of itself (SelSync, Tyagi and Swany 2023); or, with a
    `quantile`, by at least as much as in this share of the last hundred steps. They meet in each of the first `after`
    steps (post-local SGD, Lin, Stich, Patel and Jaggi 2020).

    Where they meet they average what `averages` says. Their `parameters`, after a step of each replica's own: local SGD
    (Stich 2019) and FedAvg, or what `block` or `elastic` make of the mean; each replica's optimizer slots stay its own.
    Or the `gradients` of that step, which go into values that differ from replica to replica and stay so; in every step
    that is plain training.
    """

    steps: int | None = None
    threshold: float | None = None
    averages: str = "parameters"
    block: BlockMomentum | None = None
    elastic: Elastic | None = None
    quantile: float | None = None
    after: int | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.steps, self.threshold, self.quantile)) != 1:
            raise SpecError("A rhythm has one of 'steps', a 'threshold' and a 'quantile'; give one of them.")
        if self.quantile is not None and not 0 <= self.quantile <= 1:
            raise SpecError(f"A rhythm's quantile is a share from 0 to 1, not {quoted(self.quantile)}.")
        if self.after is not None and self.after < 1:
            raise SpecError(f"Replicas meet in each of the first 1 steps or more, not {quoted(self.after)}.")
        if self.steps is not None and self.steps < 1:
            raise SpecError(f"Replicas meet in every step or more seldom, not in every {quoted(self.steps)} steps.")
        if self.threshold is not None and not 0 <= self.threshold < math.inf:
            raise SpecError(f"A rhythm's threshold is a share of at least 0, not {quoted(self.threshold)}.")
        if self.averages not in AVERAGED:
            raise SpecError(f"What replicas average is one of {', '.join(AVERAGED)}, not {quoted(self.averages)}.")
        more = [name for name in ("threshold", "quantile", "block", "elastic") if getattr(self, name) is not None]
        if more and self.averages != "parameters":
            raise SpecError(f"With {quoted(more[0])} replicas average parameters, not {self.averages}.")
        if self.block and self.elastic:
            raise SpecError("A rhythm has at most one of 'block' and 'elastic'.")


@dataclass(frozen=True)
class CutOff(Noun, what="A cut-off", partial=True):
    """A step waits for the `first` so many replicas, and is made with the mean of their gradients (Chen, Monga, Bengio
    and Jozefowicz 2016: backup workers). Or a `policy` decides for how many, out of when replicas came before.

    A policy is after gradients a second: the largest c over the time until c have come. *elfving* takes all times for
    one normal distribution, *empirical* the last ones for what comes, *filter* follows each replica by itself, and
    *bandit* tries counts out. *gain* expects times as *empirical* does, but is after progress a second: by how much
    the loss falls with c gradients, as their noise has it (after DBW, Xu, Neglia and Sebastianelli 2020). *learned*
    fits a model of all replicas' times as it goes (after BDSGD, Teng and Wood 2018); until then it is *filter*.

    For a time that was not waited for *elfving*, *empirical* and *gain* take one that was: with `imputes` "truncated"
    one that is over the wait, with "naive" any. *learned* takes it as over the wait, or with "naive" as any that was.

    One that comes later leaves no trace of that step: no gradient, no state of its own, no metrics. It may `finish` its
    pass and begin the next one then, or `stop`, so that it begins the next step with the others.
    """

    first: int | None = None
    late: str = "finish"
    policy: str | None = None
    imputes: str = "truncated"

    def __post_init__(self) -> None:
        if (self.first is None) == (self.policy is None):
            raise SpecError("A cut-off has either 'first' or a 'policy'; give one of them.")
        if self.policy is not None and self.policy not in POLICIES:
            raise SpecError(f"A cut-off's policy is one of {', '.join(POLICIES)}, not {quoted(self.policy)}.")
        if self.imputes not in IMPUTED:
            raise SpecError(f"A cut-off imputes {' or '.join(IMPUTED)} times, not {quoted(self.imputes)}.")
        if self.first is not None and self.first < 1:
            raise SpecError(f"A step waits for at least the first replica, not for {quoted(self.first)}.")
        if self.late not in LATE:
            raise SpecError(f"What late replicas do is one of {', '.join(LATE)}, not {quoted(self.late)}.")


@dataclass(frozen=True)
class Loads(Noun, what="Loads", partial=True):
    """Of the examples of a step each replica computes its part of `parts`, so that unlike ones take as long.

    With a `dead_band` loads begin like that and follow the replicas' times: each becomes as much as would take the
    mean's, once any is to change by more than this share of itself (Tyagi and Sharma 2020). A replica then computes
    `least` to `most` times as much as if all had the same. Every example weighs the same, whoever computes it.

    A step has `times` as many examples as the batches that replicas draw by themselves.
    """

    parts: tuple[float, ...]
    dead_band: float | None = None
    least: float = 0.125
    most: float = 4.0
    times: float = 1.0

    def __post_init__(self) -> None:
        if not self.parts or not all(0 < each < math.inf for each in self.parts):
            raise SpecError(f"Loads have a positive number for each replica, not {quoted(list(self.parts))}.")
        if max(self.parts) > MOST_UNLIKE * min(self.parts):
            raise SpecError(
                f"The largest load is at most {MOST_UNLIKE} times the smallest: {quoted(list(self.parts))}."
            )
        if self.dead_band is not None and not 0 < self.dead_band < 1:
            raise SpecError(f"The dead band of loads is a share over 0 and under 1, not {quoted(self.dead_band)}.")
        if not 1 / MOST_UNLIKE <= self.least <= 1 <= self.most <= MOST_UNLIKE:
            raise SpecError(
                f"Loads are {1 / MOST_UNLIKE:g} to {MOST_UNLIKE} times an equal one, 'least' at most 1 and 'most' at "
                f"least 1, not from {quoted(self.least)} to {quoted(self.most)}."
            )
        if not 1 / MOST_UNLIKE <= self.times <= MOST_UNLIKE:
            raise SpecError(
                f"A step has {1 / MOST_UNLIKE:g} to {MOST_UNLIKE} times the examples, not {quoted(self.times)} times."
            )

    @property
    def shares(self) -> tuple[float, ...]:
        """The parts as shares of all examples."""
        return tuple(each / sum(self.parts) for each in self.parts)

    @property
    def largest_share(self) -> float:
        """The most of all examples that a replica may come to compute."""
        return max(self.shares) if self.dead_band is None else max(*self.shares, min(1.0, self.most / len(self.parts)))


@dataclass(frozen=True)
class Discipline(Noun, what="A discipline", partial=True):
    """In which steps replicas meet, for whom a step waits, what share of a gradient top-k keeps when, and how many of
    the examples each replica computes.

    What is left out is plain: replicas meet in all steps, all wait for all, top-k keeps its own ratio, and all compute
    as many.
    """

    rhythm: Rhythm | None = None
    waits: CutOff | None = None
    fidelity: Fidelity | None = None
    loads: Loads | None = None

    @property
    def changes_statistics(self) -> bool:
        """Whether training under it follows other numbers; who computes an example makes no difference."""
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

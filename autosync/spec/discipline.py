"""A discipline: what a strategy does over time, where the steps of training are not all alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autosync.errors import SpecError
from autosync.spec.codec import Noun
from autosync.spec.quoting import quoted

AVERAGED = ("parameters", "gradients")


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
    replica's gradient has changed by at least this share of itself (SelSync, Tyagi and Swany 2023).

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

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.threshold is None):
            raise SpecError("A rhythm has either 'steps' or a 'threshold'; give one of them.")
        if self.steps is not None and self.steps < 1:
            raise SpecError(f"Replicas meet in every step or more seldom, not in every {quoted(self.steps)} steps.")
        if self.threshold is not None and not 0 <= self.threshold < math.inf:
            raise SpecError(f"A rhythm's threshold is a share of at least 0, not {quoted(self.threshold)}.")
        if self.averages not in AVERAGED:
            raise SpecError(f"What replicas average is one of {', '.join(AVERAGED)}, not {quoted(self.averages)}.")
        more = [name for name in ("threshold", "block", "elastic") if getattr(self, name) is not None]
        if more and self.averages != "parameters":
            raise SpecError(f"With {quoted(more[0])} replicas average parameters, not {self.averages}.")
        if self.block and self.elastic:
            raise SpecError("A rhythm has at most one of 'block' and 'elastic'.")


@dataclass(frozen=True)
class Discipline(Noun, what="A discipline"):
    """In which steps replicas meet: by the `rhythm`, or in all where there is none."""

    rhythm: Rhythm | None = None


PLAIN = Discipline()
"""Every replica computes a batch in every step, and all meet in every step."""

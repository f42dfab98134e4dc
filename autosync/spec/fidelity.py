"""A fidelity: what share of a gradient top-k keeps when, and by which transport that reaches all."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autosync.errors import SpecError
from autosync.spec.algorithms import PLACED_ALGORITHMS
from autosync.spec.codec import Noun
from autosync.spec.compressor import INDICES
from autosync.spec.quoting import quoted

MOST_RATIOS, MOST_TRANSPORTS = 16, 4
"""Of a fidelity. For each transport a step is traced."""

OF_FORMULA = ("ring", "tree")
"""Algorithms that AR-Topk's formulas are of."""


@dataclass(frozen=True)
class Transport(Noun, what="A transport", partial=True):
    """How what top-k keeps reaches all: with *own* `indices` each replica's places and values are all-gathered; with
    *star* or *var* all take one replica's places (see `TopK`), and values are all-reduced by `algorithm`.
    """

    indices: str
    algorithm: str = "ring"

    def __post_init__(self) -> None:
        if self.indices not in INDICES:
            raise SpecError(f"A transport's indices are {', '.join(INDICES)}; {quoted(self.indices)} is not.")
        if self.algorithm not in PLACED_ALGORITHMS:
            raise SpecError(
                f"A transport's algorithm is one of {', '.join(PLACED_ALGORITHMS)}, not {quoted(self.algorithm)}."
            )


@dataclass(frozen=True)
class Probed(Noun, what="What was probed"):
    """Of the slowest link: `message_seconds`, what a message takes however short it is, and `gradient_seconds`, what a
    whole dense gradient takes besides. AR-Topk's alpha, and its beta times M.
    """

    message_seconds: float
    gradient_seconds: float

    def __post_init__(self) -> None:
        if not all(0 <= each < math.inf for each in (self.message_seconds, self.gradient_seconds)):
            found = [self.message_seconds, self.gradient_seconds]
            raise SpecError(f"What was probed are seconds of at least 0, not {quoted(found)}.")


@dataclass(frozen=True)
class Fidelity(Noun, what="A fidelity", partial=True):
    """Top-k keeps one of these `ratios` of the elements in place of its own: each for `steps` steps, in their order,
    and the last from then on (Lin, Han, Mao, Wang and Dally 2018: warm-up).

    If it `keeps` a share, a ratio is used only while it holds at least so much of the gradient's smoothed squared norm,
    what had not been sent before included; of those tried so far the last such one is, or else the first, and another
    one is tried every `steps` steps (GraVAC, Tyagi and Swany 2023). If it `changes` by a share, the first is used after
    `steps` steps in which the mean gradient's norm changed by at least that much of itself from the `steps` before, and
    the last after others (Accordion, Agarwal et al. 2021, with one norm for all variables).

    Of several `transports` each is tried for a few steps, and the fastest is used for `steps` steps; then again, so
    that it follows the network. Or, with what was `probed` of the links, the one is used whose formula says the least
    seconds, and steps' seconds correct what was probed (AR-Topk, Tyagi and Swany 2023). With a `time_weight` besides,
    the ratio is the knee between the seconds of its exchange, weighed by this share, and what it loses of the gradient.

    What has not been sent is remembered from one ratio, and one transport, to the next. With 1 all is sent.
    """

    ratios: tuple[float, ...]
    steps: int
    keeps: float | None = None
    changes: float | None = None
    transports: tuple[Transport, ...] | None = None
    probed: Probed | None = None
    time_weight: float | None = None

    def __post_init__(self) -> None:
        if not self.ratios or not all(0 < each <= 1 for each in self.ratios):
            raise SpecError(f"A fidelity has ratios over 0 and at most 1, not {quoted(list(self.ratios))}.")
        if len(self.ratios) > MOST_RATIOS:
            raise SpecError(f"A fidelity has at most {MOST_RATIOS} ratios, not {len(self.ratios)}.")
        if self.steps < 1:
            raise SpecError(f"Each ratio is kept for 1 step or more, not for {quoted(self.steps)}.")
        if self.transports is not None and not 1 <= len(self.transports) <= MOST_TRANSPORTS:
            raise SpecError(f"A fidelity has 1 to {MOST_TRANSPORTS} transports, not {len(self.transports)}.")
        if self.keeps is not None and self.changes is not None:
            raise SpecError("A fidelity has at most one of 'keeps' and 'changes'.")
        if self.keeps is not None and not 0 < self.keeps <= 1:
            raise SpecError(f"A fidelity keeps a share over 0 and at most 1, not {quoted(self.keeps)}.")
        if self.changes is not None and not 0 < self.changes < math.inf:
            raise SpecError(f"A fidelity changes by a positive share, not {quoted(self.changes)}.")
        falls = list(self.ratios) == sorted(self.ratios, reverse=True)
        if not falls and (self.keeps is not None or self.time_weight is not None):
            raise SpecError(f"The ratios of a fidelity that watches them fall: {quoted(list(self.ratios))} do not.")
        if self.probed is not None:
            if not self.transports:
                raise SpecError("A fidelity chooses among 'transports' by what was 'probed'; give some.")
            strange = [each for each in self.transports if each.indices != "own" and each.algorithm not in OF_FORMULA]
            if strange:
                raise SpecError(
                    f"There is no formula for {quoted(strange[0].algorithm)}; give {' or '.join(OF_FORMULA)}."
                )
        if self.time_weight is not None:
            if self.probed is None:
                raise SpecError("A fidelity weighs time by what was 'probed'; give that, or leave out 'time_weight'.")
            if not 0 < self.time_weight < 1:
                raise SpecError(f"A time weight is a share over 0 and under 1, not {quoted(self.time_weight)}.")
            if self.keeps is not None or self.changes is not None:
                raise SpecError("A fidelity has one of 'keeps', 'changes' and a 'time_weight'.")

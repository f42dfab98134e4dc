"""Fidelities: schedules of the ratio that top-k keeps, and of the transport of the kept elements."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autosync.errors import SpecError
from autosync.spec.algorithms import PLACED_ALGORITHMS
from autosync.spec.codec import Noun
from autosync.spec.compressor import INDICES
from autosync.spec.quoting import quote

MOST_RATIOS, MOST_TRANSPORTS = 16, 4
"""The most ratios and transports of a fidelity. A step function is traced for each transport."""

OF_FORMULA = ("ring", "tree")
"""Algorithms for which AR-Topk has formulas."""


@dataclass(frozen=True)
class TopKTransport(Noun, what="A transport", partial=True):
    """How the elements that top-k keeps reach all replicas.

    With *own* `indices`, each replica's indices and values are all-gathered. With *star* or *var*, all replicas use the
    indices of one replica (see `TopK`), and `algorithm` all-reduces the values.
    """

    indices: str
    algorithm: str = "ring"

    def __post_init__(self) -> None:
        if self.indices not in INDICES:
            raise SpecError(f"A transport's indices are {', '.join(INDICES)}; {quote(self.indices)} is not.")
        if self.algorithm not in PLACED_ALGORITHMS:
            raise SpecError(
                f"A transport's algorithm is one of {', '.join(PLACED_ALGORITHMS)}, not {quote(self.algorithm)}."
            )


@dataclass(frozen=True)
class Probed(Noun, what="A probe of the slowest link"):
    """Measurements of the slowest link, for AR-Topk's formulas.

    `message_seconds` is the time of an empty message (alpha). `gradient_seconds` is the additional time of a dense
    gradient of the whole model (beta times M).
    """

    message_seconds: float
    gradient_seconds: float

    def __post_init__(self) -> None:
        seconds = [self.message_seconds, self.gradient_seconds]
        if not all(0 <= duration < math.inf for duration in seconds):
            raise SpecError(f"A probe of the slowest link has seconds of at least 0, not {quote(seconds)}.")


@dataclass(frozen=True)
class Fidelity(Noun, what="A fidelity", partial=True):
    """The `ratios` that top-k keeps instead of the compressor's ratio, and when it keeps which.

    Without further fields, each ratio is used for `steps` steps, in order, and the last one from then on (warm-up; Lin,
    Han, Mao, Wang and Dally 2018). Changes of ratio or transport preserve the error-feedback residual.
    """

    ratios: tuple[float, ...]
    """Shares of the elements that top-k can keep; at 1, all elements are sent."""
    steps: int
    """Number of steps between decisions."""
    keeps: float | None = None
    """GraVAC (Tyagi and Swany 2023): a ratio is acceptable while it keeps at least this share of the smoothed squared
    norm of gradient plus residual. The last acceptable ratio among those tried so far is used, or the first if there is
    none, and another ratio is tried every `steps` steps. None without this rule."""
    changes: float | None = None
    """Accordion (Agarwal et al. 2021, with one norm for all variables): the first ratio is used after `steps` steps in
    which the norm of the mean gradient changed by at least this share of itself, compared with the `steps` steps
    before; otherwise the last ratio is used. None without this rule."""
    transports: tuple[TopKTransport, ...] | None = None
    """Transports to choose from: each is tried for a few steps, the fastest is used for `steps` steps, and then the
    trials repeat, to follow changes of the network. None for the strategy's exchange."""
    probed: Probed | None = None
    """AR-Topk (Tyagi and Swany 2023): the transport with the least seconds by formula is used, and measured step times
    correct the probe. None to try the transports."""
    time_weight: float | None = None
    """With `probed`: the ratio is the knee between the seconds of its exchange, weighted by this share, and its loss of
    gradient. None without this rule."""

    def __post_init__(self) -> None:
        if not self.ratios or not all(0 < ratio <= 1 for ratio in self.ratios):
            raise SpecError(f"A fidelity has ratios over 0 and at most 1, not {quote(list(self.ratios))}.")
        if len(self.ratios) > MOST_RATIOS:
            raise SpecError(f"A fidelity has at most {MOST_RATIOS} ratios, not {len(self.ratios)}.")
        if self.steps < 1:
            raise SpecError(f"Each ratio is kept for 1 step or more, not for {quote(self.steps)}.")
        if self.transports is not None and not 1 <= len(self.transports) <= MOST_TRANSPORTS:
            raise SpecError(f"A fidelity has 1 to {MOST_TRANSPORTS} transports, not {len(self.transports)}.")
        if self.keeps is not None and self.changes is not None:
            raise SpecError("A fidelity has at most one of 'keeps' and 'changes'.")
        if self.keeps is not None and not 0 < self.keeps <= 1:
            raise SpecError(f"A fidelity keeps a share over 0 and at most 1, not {quote(self.keeps)}.")
        if self.changes is not None and not 0 < self.changes < math.inf:
            raise SpecError(f"A fidelity changes by a positive share, not {quote(self.changes)}.")
        falls = list(self.ratios) == sorted(self.ratios, reverse=True)
        if not falls and (self.keeps is not None or self.time_weight is not None):
            raise SpecError(
                f"The ratios of a fidelity with 'keeps' or 'time_weight' must fall, but "
                f"{quote(list(self.ratios))} do not."
            )
        if self.probed is not None:
            if not self.transports:
                raise SpecError("A fidelity with 'probed' chooses among 'transports'; give some.")
            strange = [way for way in self.transports if way.indices != "own" and way.algorithm not in OF_FORMULA]
            if strange:
                raise SpecError(
                    f"There is no formula for {quote(strange[0].algorithm)}; give {' or '.join(OF_FORMULA)}."
                )
        if self.time_weight is not None:
            if self.probed is None:
                raise SpecError(
                    "A fidelity with a 'time_weight' needs 'probed'; give 'probed', or leave out 'time_weight'."
                )
            if not 0 < self.time_weight < 1:
                raise SpecError(f"A time weight is a share over 0 and under 1, not {quote(self.time_weight)}.")
            if self.keeps is not None or self.changes is not None:
                raise SpecError("A fidelity has one of 'keeps', 'changes' and a 'time_weight'.")

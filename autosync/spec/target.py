"""A target of training, and the record of a training run towards it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from autosync.errors import SpecError
from autosync.spec.cluster import ClusterSpec
from autosync.spec.codec import Noun, check_start
from autosync.spec.model import ModelSpec
from autosync.spec.pace_report import KeptPace
from autosync.spec.quoting import quote, shorten_list
from autosync.spec.strategy import Strategy

METRICS = ("loss",)
TARGET_OUTCOMES = ("reached", "not_reached", "failed", "timed_out", "lost")
MOST_STEPS = 10**6


@dataclass(frozen=True)
class Target(Noun, what="A target", partial=True):
    """Training must bring `metric` to `threshold` or below in at most `steps` steps.

    The metric is evaluated after every `every` steps. *loss* is the mean loss of the replicas' mean model over held-out
    batches from the data of all replicas.
    """

    metric: str
    threshold: float
    every: int = 10
    steps: int = 2000

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise SpecError(f"The metric of a target is one of {', '.join(METRICS)}, not {quote(self.metric)}.")
        if not math.isfinite(self.threshold):
            raise SpecError(f"A target's threshold is a finite number, not {quote(self.threshold)}.")
        if not 1 <= self.every <= self.steps <= MOST_STEPS:
            raise SpecError(
                f"A target is looked at after 1 step or more, and at most as many as there are, up to {MOST_STEPS}: "
                f"not after every {quote(self.every)} of {quote(self.steps)}."
            )


def metric_of(text: str) -> tuple[str, float]:
    """Parse metric and threshold from a text such as loss=0.08. Raises `SpecError`."""
    metric, _, number = text.partition("=")
    try:
        return metric, float(number)
    except ValueError:
        raise SpecError(f"--target is a metric and a number such as loss=0.08, not {quote(text)}.") from None


@dataclass(frozen=True)
class CurvePoint(Noun, what="A point of a curve"):
    """The metric after `step` steps; the steps took `seconds`, without the time of evaluations."""

    step: int
    seconds: float
    value: float


@dataclass(frozen=True)
class Decided(Noun, what="A record of decisions", partial=True):
    """The decisions of controllers in each step; a tuple is empty if the discipline leaves nothing to decide."""

    counted: tuple[int, ...] = ()
    """Number of replicas whose gradients counted."""
    kept: tuple[float, ...] = ()
    """Ratio of top-k."""
    transport: tuple[int, ...] = ()
    """Index of the transport of top-k's elements."""
    met: tuple[int, ...] = ()
    """1 for a step in which replicas met, else 0."""
    largest_load: tuple[float, ...] = ()
    """Largest share of the step's examples that a replica computed."""


@dataclass(frozen=True)
class TargetRecord(Noun, what="A target's record"):
    """A fact: `strategy` trained `model` on `cluster`, and reached `target`, or missed it for `reason`."""

    model: ModelSpec
    cluster: ClusterSpec
    strategy: Strategy
    target: Target
    outcome: str
    """One of `TARGET_OUTCOMES`."""
    seed: int
    started_at: float
    """Seconds since 1970."""
    total_seconds: float
    """Seconds of the whole run."""
    reason: str = ""
    """A sentence that explains why the target was not reached; empty if it was reached."""
    curve: tuple[CurvePoint, ...] = ()
    """Evaluations of the metric, the first at step 0."""
    step_seconds: tuple[float, ...] = ()
    """Seconds of every step."""
    losses: tuple[float, ...] = ()
    """Mean training loss of every step, before the step's update."""
    met: int = 0
    """Number of steps in which replicas met."""
    counted: tuple[int, ...] = ()
    """Per replica, the number of steps in which its gradient counted."""
    controller_seconds: float = 0.0
    """Seconds that controllers took for decisions."""
    pace: KeptPace | None = None
    """How closely passes followed the pace; None if nodes were not paced."""
    decided: Decided | None = None
    """Decisions of controllers; None if there were none."""
    behind: float | None = None
    """If the run was given up as too slow: its time to its last loss, as a multiple of another run's time to that loss.
    None otherwise."""
    label: str = "manual"
    run: str = "manual"
    host: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    framework: str | None = None
    """As in `RuntimeRecord`."""

    def __post_init__(self) -> None:
        if self.outcome not in TARGET_OUTCOMES:
            raise SpecError(f"An outcome is one of {shorten_list(TARGET_OUTCOMES)}, not {quote(self.outcome)}.")
        if (self.outcome == "reached") == bool(self.reason):
            raise SpecError("A record states a reason if, and only if, the target was not reached.")
        check_start(self.started_at)
        figures = [*self.step_seconds, *self.losses, *(point.value for point in self.curve), self.total_seconds]
        if not all(map(math.isfinite, figures)):
            raise SpecError("The figures of a target's record are finite.")

    @property
    def seconds(self) -> float:
        """Seconds of training until the target was reached, or until training ended if it was not."""
        return self.curve[-1].seconds if self.outcome == "reached" else sum(self.step_seconds)

    @property
    def steps(self) -> int:
        return len(self.step_seconds)

"""A target of training, and the record of a run towards it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from autosync.errors import SpecError
from autosync.spec.cluster import ClusterSpec
from autosync.spec.codec import Noun, check_start
from autosync.spec.kept import KeptPace
from autosync.spec.model import ModelSpec
from autosync.spec.quoting import listed, quoted
from autosync.spec.strategy import Strategy

METRICS = ("loss",)
TARGET_OUTCOMES = ("reached", "not_reached", "failed", "timed_out", "lost")
MOST_STEPS = 10**6


@dataclass(frozen=True)
class Target(Noun, what="A target", partial=True):
    """To bring `metric` to `threshold` or below in at most `steps` steps.

    The *loss* is the mean one of the replicas' mean model over batches that are not trained on, of what all replicas
    draw; it is looked at after every `every` steps.
    """

    metric: str
    threshold: float
    every: int = 10
    steps: int = 2000

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise SpecError(f"The metric of a target is one of {', '.join(METRICS)}, not {quoted(self.metric)}.")
        if not math.isfinite(self.threshold):
            raise SpecError(f"A target's threshold is a finite number, not {quoted(self.threshold)}.")
        if not 1 <= self.every <= self.steps <= MOST_STEPS:
            raise SpecError(
                f"A target is looked at after 1 step or more, and at most as many as there are, up to {MOST_STEPS}: "
                f"not after every {quoted(self.every)} of {quoted(self.steps)}."
            )


def metric_of(text: str) -> tuple[str, float]:
    """The metric and the threshold of a text such as loss=0.08. Raises `SpecError`."""
    metric, _, number = text.partition("=")
    try:
        return metric, float(number)
    except ValueError:
        raise SpecError(f"--target is a metric and a number such as loss=0.08, not {quoted(text)}.") from None


@dataclass(frozen=True)
class CurvePoint(Noun, what="A point of a curve"):
    """What the metric was after so many steps, which took `seconds` without looking at it."""

    step: int
    seconds: float
    value: float


@dataclass(frozen=True)
class Decided(Noun, what="What was decided", partial=True):
    """What controllers decided in each step; empty where there was nothing to decide.

    How many replicas counted; the ratio that top-k kept, and the number of its transport; 1 for a step in which
    replicas met, and 0 for others; and the largest share of the examples that one replica computed.
    """

    counted: tuple[int, ...] = ()
    kept: tuple[float, ...] = ()
    transport: tuple[int, ...] = ()
    met: tuple[int, ...] = ()
    largest_load: tuple[float, ...] = ()


@dataclass(frozen=True)
class TargetRecord(Noun, what="A target's record"):
    """A fact: `strategy` trained `model` on `cluster` towards `target`, and reached it, or did not for `reason`.

    `curve` begins with step 0. `step_seconds` and `losses` are of every step; a loss is the mean one before the update,
    on what was trained on. In `met` of the steps replicas met; `counted` is in how many each replica's gradient
    counted. `controller_seconds` are what deciding took. `pace` says how paced passes were kept. `behind` is how many
    times as long as another run this one had taken to its loss when it was given up for that.
    """

    model: ModelSpec
    cluster: ClusterSpec
    strategy: Strategy
    target: Target
    outcome: str
    seed: int
    started_at: float
    total_seconds: float
    reason: str = ""
    curve: tuple[CurvePoint, ...] = ()
    step_seconds: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()
    met: int = 0
    counted: tuple[int, ...] = ()
    controller_seconds: float = 0.0
    pace: KeptPace | None = None
    decided: Decided | None = None
    behind: float | None = None
    label: str = "manual"
    run: str = "manual"
    host: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.outcome not in TARGET_OUTCOMES:
            raise SpecError(f"An outcome is one of {listed(TARGET_OUTCOMES)}, not {quoted(self.outcome)}.")
        if (self.outcome == "reached") == bool(self.reason):
            raise SpecError("A record states a reason exactly where the target was not reached.")
        check_start(self.started_at)
        figures = [*self.step_seconds, *self.losses, *(each.value for each in self.curve), self.total_seconds]
        if not all(map(math.isfinite, figures)):
            raise SpecError("The figures of a target's record are finite.")

    @property
    def seconds(self) -> float:
        """What training took: to the target where it was reached, and else until it ended."""
        return self.curve[-1].seconds if self.outcome == "reached" else sum(self.step_seconds)

    @property
    def steps(self) -> int:
        return len(self.step_seconds)

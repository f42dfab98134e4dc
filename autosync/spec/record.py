"""The record noun: an attempt to time a strategy, and its outcome. A record never changes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from autosync.errors import SpecError
from autosync.spec.cluster import ClusterSpec
from autosync.spec.codec import Noun, check_fields, check_start, read_required
from autosync.spec.model import ModelSpec
from autosync.spec.pace_report import KeptPace, kind_of
from autosync.spec.quoting import quote, shorten_list
from autosync.spec.strategy import Strategy

OUTCOMES = ("ok", "stopped", "failed", "timed_out", "lost")
PURPOSES = ("baseline", "search", "remeasure", "manual")
ENGINE_IN_VERSIONS = "autosync.engine"
"""Name of the engine's version in a record's `versions`; older records have a digest of the engine's source there."""
DIGEST_LENGTH = 12


def engine_of(versions: Mapping[str, str]) -> int:
    """The version of the engine among a record's `versions`; 0 if they do not state one."""
    version = versions.get(ENGINE_IN_VERSIONS, "")
    return int(version) if version.isdecimal() and len(version) < DIGEST_LENGTH else 0


@dataclass(frozen=True)
class TimingProtocol:
    """How a trial times a strategy, and when the trial ends early."""

    warmup_steps: int = 10
    """Number of steps before timing begins."""
    timed_steps: int = 40
    time_limit_seconds: float = 300.0
    """Limit of the whole trial in seconds, including building the step."""
    stop_factor: float = 2.0
    """A trial is *stopped* once the 95 % interval of its median step is entirely above this multiple of the best median
    so far."""
    check_after: int = 5
    """Number of timed steps before the first check against `stop_factor`."""

    def __post_init__(self) -> None:
        if self.warmup_steps < 0 or self.timed_steps < 1 or self.check_after < 1:
            raise SpecError(
                "A trial has 0 or more warm-up steps and 1 or more timed steps, and checks after 1 or more."
            )
        if not (0 < self.time_limit_seconds < math.inf and 1 < self.stop_factor < math.inf):
            raise SpecError("A trial's time limit must be positive and finite, and its stop factor over 1 and finite.")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TimingProtocol:
        """The protocol that `to_json` described. Raises `SpecError`.

        An integer is not converted to a float, because the record's digest would change.
        """
        check_fields(document, tuple(part.name for part in fields(cls)), "A timing protocol")
        present = [part for part in fields(cls) if part.name in document]
        for part in present:
            read_required(document, part.name, type(part.default), "A timing protocol")
        return cls(**{part.name: document[part.name] for part in present})


@dataclass(frozen=True)
class RuntimeRecord(Noun, what="A record", always=("final_loss", "predicted_seconds")):
    """A fact: `strategy` trained `model` on `cluster` and took `step_seconds`, or failed for `reason`."""

    model: ModelSpec
    cluster: ClusterSpec
    strategy: Strategy
    protocol: TimingProtocol
    outcome: str
    """*ok* (all timed steps kept), *stopped* (clearly slower than the best; some steps kept), *timed_out*, *failed*, or
    *lost* (a process or node of the trial was lost, which says nothing about the strategy)."""
    purpose: str
    """One of `PURPOSES`."""
    label: str
    run: str
    seed: int
    started_at: float
    """Seconds since 1970."""
    setup_seconds: float = 0.0
    """Seconds that building the step took."""
    total_seconds: float = 0.0
    """Seconds of the whole trial."""
    step_seconds: tuple[float, ...] = ()
    """Seconds of each timed step."""
    reason: str = ""
    """A sentence that explains an outcome other than *ok*; empty if the outcome is *ok*."""
    final_loss: float | None = None
    predicted_seconds: float | None = None
    """Seconds per step that the simulator predicted before the trial; None without a prediction."""
    host: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    sequence: int | None = None
    """Number of the trial in a collection or search; None for other trials."""
    load_average: float | None = None
    """The machine's load average over a minute, just before the trial."""
    pace: KeptPace | None = None
    """How closely passes followed the pace; None if nodes were not paced or no step was timed."""
    phases: tuple[int, ...] | None = None
    """Phase, counted from 0, in which each timed step began; None if the cluster's links do not change."""
    framework: str | None = None
    """Framework of the engine that timed the steps; None for TensorFlow, as in records older than other engines."""

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise SpecError(f"A record's outcome is one of {', '.join(OUTCOMES)}, not {quote(self.outcome)}.")
        if self.purpose not in PURPOSES:
            raise SpecError(f"A record's purpose is one of {', '.join(PURPOSES)}, not {quote(self.purpose)}.")
        if (self.outcome == "ok") == bool(self.reason):
            raise SpecError(
                "Exactly the records that are not ok state a reason; "
                f"outcome {quote(self.outcome)}, {quote(self.reason)}."
            )
        if self.outcome == "ok" and not self.step_seconds:
            raise SpecError("A record that is ok holds its step seconds; none were given.")
        if not all(math.isfinite(seconds) and seconds > 0 for seconds in self.step_seconds):
            raise SpecError("Step seconds are positive and finite.")
        check_start(self.started_at)
        if not min(self.setup_seconds, self.total_seconds) >= 0:
            raise SpecError("A record's lengths are at least 0.")
        if not math.isfinite(self.setup_seconds + self.total_seconds + (self.load_average or 0.0)):
            raise SpecError("A record's lengths and load are finite.")
        if self.predicted_seconds is not None and not 0 <= self.predicted_seconds < math.inf:
            raise SpecError(f"A record's predicted step is finite, not {self.predicted_seconds!r}.")
        last = len(self.cluster.phase_starts) - 1
        if self.phases is not None and (
            not last
            or len(self.phases) != len(self.step_seconds)
            or not all(0 <= phase <= last for phase in self.phases)
        ):
            raise SpecError(
                f"A record has the phase of each timed step where links change: here {len(self.step_seconds)} phases "
                f"from 0 to {last}, not {shorten_list([str(phase) for phase in self.phases]) or 'none'}."
            )
        if self.pace is not None and (not self.cluster.paced or self.pace.numbers != self.cluster.numbers):
            raise SpecError(
                f"A record's pace is kept on a cluster that is paced so, but its numbers are {self.pace.numbers} and "
                f"those of the cluster {self.cluster.numbers}."
            )

    @property
    def engine(self) -> int:
        """The version of the engine that timed the steps; 0 if the record does not state one."""
        return engine_of(self.versions)

    @property
    def time(self) -> str:
        """The kind of its durations: *real*, *paced* or *virtual*."""
        return self.pace.time if self.pace else self.cluster.time

    @property
    def numbers(self) -> str:
        """The kind of its gradients: *real*, *held* or *recorded*."""
        return self.cluster.numbers

    @property
    def kind(self) -> str:
        """The kind of its seconds, as `kind_of` states it. Seconds of different kinds are never compared."""
        return kind_of(self.time, self.numbers, self.framework)

    def compares_on(self, cluster: ClusterSpec, framework: str | None = None) -> bool:
        """Whether its seconds can be compared with those that an engine of `framework` times on `cluster`, because
        framework, kind of durations and kind of gradients are the same.
        """
        return (self.time, self.numbers, self.framework) == (cluster.time, cluster.numbers, framework)

    @property
    def timed(self) -> bool:
        """Whether the record holds a step time to learn from (ok, or stopped with some steps)."""
        return self.outcome in ("ok", "stopped") and bool(self.step_seconds)

    @property
    def of_search(self) -> bool:
        """Whether the trial belongs to a search proper. A trial that times a strategy again belongs to the search if it
        has a number, and to the finals otherwise.
        """
        return self.purpose in ("baseline", "search") or self.sequence is not None

    @property
    def median_seconds(self) -> float | None:
        """Median step time in seconds, or None if no step was timed."""
        return statistics.median(self.step_seconds) if self.timed else None

    @property
    def mean_seconds(self) -> float | None:
        return statistics.fmean(self.step_seconds) if self.timed else None

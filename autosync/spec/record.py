"""The record noun: one attempt to time one strategy, and what came of it. A record never changes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from autosync.errors import SpecError
from autosync.spec.cluster import ClusterSpec
from autosync.spec.codec import Noun, check_start, known_fields, required
from autosync.spec.kept import KeptPace, kind_of
from autosync.spec.model import ModelSpec
from autosync.spec.quoting import listed, quoted
from autosync.spec.strategy import Strategy

OUTCOMES = ("ok", "stopped", "failed", "timed_out", "lost")
PURPOSES = ("baseline", "search", "remeasure", "manual")
ENGINE_IN_VERSIONS = "autosync.engine"
"""The name of the engine's version in a record's `versions`, where once a digest of its source stood."""
DIGEST_LENGTH = 12


def engine_of(versions: Mapping[str, str]) -> int:
    """The version of the engine among a record's `versions`; 0 where they do not say."""
    version = versions.get(ENGINE_IN_VERSIONS, "")
    return int(version) if version.isdecimal() and len(version) < DIGEST_LENGTH else 0


@dataclass(frozen=True)
class TimingProtocol:
    """How a strategy is timed: steps thrown away, steps kept, and the limits of patience.

    A trial is *stopped* when, after `check_after` timed steps or more, its median is surely over `stop_factor` times
    the best so far: the 95 % interval of its median is. `time_limit_seconds` bounds the whole trial, building included.
    """

    warmup_steps: int = 10
    timed_steps: int = 40
    time_limit_seconds: float = 300.0
    stop_factor: float = 2.0
    check_after: int = 5

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
        """The protocol that `to_json` described; an integer stays one, for a record's identity. Raises `SpecError`."""
        known_fields(document, tuple(each.name for each in fields(cls)), "A timing protocol")
        given = [each for each in fields(cls) if each.name in document]
        for each in given:
            required(document, each.name, type(each.default), "A timing protocol")
        return cls(**{each.name: document[each.name] for each in given})


@dataclass(frozen=True)
class RuntimeRecord(Noun, what="A record", always=("final_loss", "predicted_seconds")):
    """A fact: `strategy` trained `model` on `cluster` and took `step_seconds`, or failed for `reason`.

    `outcome` is *ok* (all timed steps kept), *stopped* (clearly slower than the best; some steps kept),
    *timed_out*, *failed*, or *lost* (a process or node under it went away, which says nothing about the strategy);
    all but *ok* state a reason. `setup_seconds` is what building the step took,
    `total_seconds` the whole trial. `predicted_seconds` is what the simulator said before the trial ran.
    `sequence` numbers the trials of a collection or a search; `load_average` is the machine's just before the trial,
    over a minute. `pace` is how the pace was kept, of a trial on paced nodes that timed steps. `phases` are those
    that the timed steps began in, numbered from 0, of a trial on a cluster whose links change.
    """

    model: ModelSpec
    cluster: ClusterSpec
    strategy: Strategy
    protocol: TimingProtocol
    outcome: str
    purpose: str
    label: str
    run: str
    seed: int
    started_at: float
    setup_seconds: float = 0.0
    total_seconds: float = 0.0
    step_seconds: tuple[float, ...] = ()
    reason: str = ""
    final_loss: float | None = None
    predicted_seconds: float | None = None
    host: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    sequence: int | None = None
    load_average: float | None = None
    pace: KeptPace | None = None
    phases: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise SpecError(f"A record's outcome is one of {', '.join(OUTCOMES)}, not {quoted(self.outcome)}.")
        if self.purpose not in PURPOSES:
            raise SpecError(f"A record's purpose is one of {', '.join(PURPOSES)}, not {quoted(self.purpose)}.")
        if (self.outcome == "ok") == bool(self.reason):
            raise SpecError(
                "Exactly the records that are not ok state a reason; "
                f"outcome {quoted(self.outcome)}, {quoted(self.reason)}."
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
            not last or len(self.phases) != len(self.step_seconds) or not all(0 <= each <= last for each in self.phases)
        ):
            raise SpecError(
                f"A record has the phase of each timed step where links change: here {len(self.step_seconds)} phases "
                f"from 0 to {last}, not {listed([str(each) for each in self.phases]) or 'none'}."
            )
        if self.pace is not None and (not self.cluster.paced or self.pace.numbers != self.cluster.numbers):
            raise SpecError(
                f"A record's pace is kept on a cluster that is paced so, but its numbers are {self.pace.numbers} and "
                f"those of the cluster {self.cluster.numbers}."
            )

    @property
    def engine(self) -> int:
        """The version of the engine that timed it; 0 where it does not say."""
        return engine_of(self.versions)

    @property
    def time(self) -> str:
        """What its seconds are: *real*, *paced* or *virtual*."""
        return self.pace.time if self.pace else self.cluster.time

    @property
    def numbers(self) -> str:
        """What its gradients are: *real*, *held* or *recorded*."""
        return self.cluster.numbers

    @property
    def kind(self) -> str:
        """Both in a word: *real*, or as *paced-recorded*. Seconds of different kinds are never compared."""
        return kind_of(self.time, self.numbers)

    def compares_on(self, cluster: ClusterSpec) -> bool:
        """Whether its seconds are of the same kind as those of trials on `cluster`: real, paced or virtual ones, with
        the same kind of numbers.
        """
        return (self.time, self.numbers) == (cluster.time, cluster.numbers)

    @property
    def timed(self) -> bool:
        """Whether the record holds a step time to learn from (ok, or stopped with some steps)."""
        return self.outcome in ("ok", "stopped") and bool(self.step_seconds)

    @property
    def of_search(self) -> bool:
        """Whether the trial is one of a search's own. Of trials timed again, those of a search have a number, and those
        of the finals after it have none.
        """
        return self.purpose in ("baseline", "search") or self.sequence is not None

    @property
    def median_seconds(self) -> float | None:
        """Median step time in seconds, or None when no step was timed."""
        return statistics.median(self.step_seconds) if self.timed else None

    @property
    def mean_seconds(self) -> float | None:
        return statistics.fmean(self.step_seconds) if self.timed else None

"""Paced steps without waiting: what passes take is drawn as a trial draws it, and all that follows is replayed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import paces_of
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.step import Step, step_of
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, KeptPace, ModelProfile, ModelSpec, Pace, Strategy

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_REPLAYED = 512
"""The most lengths of passes that are replayed, of which each takes milliseconds; steps in between are interpolated."""


@final
@dataclass(frozen=True, eq=False)
class VirtualClock:
    """Steps of one strategy on a paced cluster, whose seconds are worked out by the replay.

    Steps are counted from 0, as a trial counts them, its first one and warm-up included; a seed gives the draws that a
    trial with that seed waits for. Passes of a step take as long as those of its slowest replica. Its seconds are
    *virtual*, which is never compared with *paced* or *real*: records of them hold what `kept` says.

    Where links change, steps go from phase to phase by this clock: one has the rates of the phase that it begins in,
    to its end. `by_phase` is what a step is like in each phase, which begin at `phase_starts`, in seconds from when
    the cluster is up; `begin_seconds` is when the first of the steps that are asked for begins.
    """

    by_phase: tuple[Step, ...]
    phase_starts: tuple[float, ...]
    profile: ModelProfile
    paces: tuple[tuple[str, Pace], ...]
    numbers: str
    coefficients: ReplayCoefficients

    @classmethod
    def of(
        cls,
        model: ModelSpec,
        cluster: ClusterSpec,
        strategy: Strategy,
        coefficients: ReplayCoefficients | None = None,
    ) -> VirtualClock:
        """The clock of `strategy`; coefficients are a fitted replay's, or those assumed.

        Raises `SpecError` where passes are not paced, or steps not synchronous, and when the strategy does not fit.
        """
        profile = model.pace_profile
        if not cluster.paced or profile is None:
            raise SpecError(
                "Virtual steps are those of a profiled model on a paced cluster; give the cluster's nodes a pace, and "
                "the model a profile."
            )
        if strategy.staleness:
            raise SpecError(
                "On a paced cluster steps are synchronous, virtual ones too; take a strategy without staleness."
            )
        paces = tuple(paces_of(cluster, strategy.replicas))
        starts = cluster.phase_starts
        steps = tuple(step_of(model, cluster.at(start) if start else cluster, strategy) for start in starts)
        return cls(steps, starts, profile, paces, cluster.numbers, coefficients or ReplayCoefficients())

    def pass_seconds(self, seed: int, steps: int) -> FloatArray:
        """What each replica's passes take in the first `steps` steps, float64 (steps, replicas)."""
        drawn = [
            [pace.seconds(self.profile, seed, step, device) for device, pace in self.paces] for step in range(steps)
        ]
        return np.array(drawn, dtype=np.float64).reshape(steps, len(self.paces))

    def step_seconds(self, seed: int, steps: int, begin_seconds: float = 0.0) -> FloatArray:
        """Seconds of each of the first `steps` steps, float64 (steps,).

        Each is the replay's with that step's own passes. If passes of a phase take over `MOST_REPLAYED` different
        times, so many are replayed, evenly spaced in their order, and others lie between two of these; as queues change
        their order at some lengths, single ones are off by up to some thousandths.
        """
        parts = [seconds for _, seconds in self._phase_by_phase(seed, steps, begin_seconds)]
        return np.concatenate([np.zeros(0), *parts])

    def phases(self, seed: int, steps: int, begin_seconds: float = 0.0) -> IntArray:
        """The phase that each of the first `steps` steps begins in, from 0 on, int64 (steps,)."""
        parts = [np.full(len(seconds), phase) for phase, seconds in self._phase_by_phase(seed, steps, begin_seconds)]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def kept(self, seed: int, steps: int) -> KeptPace:
        """What a record of the first `steps` steps says of its pace: it is *virtual*, and kept exactly."""
        seconds = tuple(float(each) for each in np.median(self.pass_seconds(seed, steps), axis=0))
        late = (0.0,) * len(seconds)
        return KeptPace("virtual", self.numbers, 0, seconds, seconds, late, late)

    def _phase_by_phase(self, seed: int, steps: int, begin_seconds: float) -> Iterator[tuple[int, FloatArray]]:
        """Seconds of the first `steps` steps, in parts of one phase each, of which two in a row may be alike."""
        slowest, now = self.pass_seconds(seed, steps).max(axis=1, initial=0.0), begin_seconds
        for phase, end in enumerate((*self.phase_starts[1:], math.inf)):
            while len(slowest) and now < end:
                # No step is shorter than its passes, so that no more than these begin before the phase is over.
                may = 1 + int(np.searchsorted(now + np.cumsum(slowest[:-1]), end))
                seconds = self._replayed(self.by_phase[phase], slowest[:may])
                count = 1 + int(np.searchsorted(now + np.cumsum(seconds[:-1]), end))
                yield phase, seconds[:count]
                now += float(seconds[:count].sum())
                slowest = slowest[count:]

    def _replayed(self, step: Step, slowest: FloatArray) -> FloatArray:
        """Seconds of steps, each like `step` with passes that take as long as `slowest` says."""
        lengths = np.unique(slowest)
        if len(lengths) > MOST_REPLAYED:
            lengths = lengths[np.linspace(0, len(lengths) - 1, MOST_REPLAYED).round().astype(np.intp)]
        replayed = [step.taking(each).seconds(self.coefficients) for each in lengths.tolist()]
        return np.asarray(np.interp(slowest, lengths, replayed))

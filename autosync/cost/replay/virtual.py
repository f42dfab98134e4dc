"""Paced steps without waiting: what passes take is drawn as a trial draws it, and all that follows is replayed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from autosync.cost.capacity import paces_of
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.recipes import MANY
from autosync.cost.replay.step import Step, step_of
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, KeptPace, ModelProfile, ModelSpec, Pace, Strategy

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_REPLAYED = 512
"""The most lengths of passes that are replayed, of which each takes milliseconds; steps in between are interpolated."""

MOST_APART = 256
"""The most steps that are replayed with passes of each replica's own; others save what the most similar one does."""


@final
@dataclass(frozen=True, eq=False)
class VirtualClock:
    """Steps of one strategy on a paced cluster, whose seconds are worked out by the replay.

    Steps are counted from 0, as a trial counts them, its first one and warm-up included; a seed gives the draws that a
    trial with that seed waits for. Each replica's passes take what is drawn for it, and it sends what it has when it
    has it; of `MANY` replicas or more, all take as long as the slowest. Its seconds are *virtual*, which is never
    compared with *paced* or *real*: records of them hold what `kept` says.

    Where links change, steps go from phase to phase by this clock: one has the rates of the phase that it begins in,
    to its end. `by_phase` is what a step is like in each phase, and `apart` with passes of each replica's own (empty
    where they are not told apart); phases begin at `phase_starts`, in seconds from when the cluster is up;
    `begin_seconds` is when the first of the steps that are asked for begins.
    """

    by_phase: tuple[Step, ...]
    apart: tuple[Step, ...]
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
        of_phases = [cluster.at(start) if start else cluster for start in starts]
        steps = tuple(step_of(model, each, strategy) for each in of_phases)
        unlike = 1 < len(paces) < MANY
        apart = tuple(step_of(model, each, strategy, apart=True) for each in of_phases) if unlike else ()
        return cls(steps, apart, starts, profile, paces, cluster.numbers, coefficients or ReplayCoefficients())

    def pass_seconds(self, seed: int, steps: int) -> FloatArray:
        """What each replica's passes take in the first `steps` steps, float64 (steps, replicas)."""
        drawn = [
            [pace.seconds(self.profile, seed, step, device) for device, pace in self.paces] for step in range(steps)
        ]
        return np.array(drawn, dtype=np.float64).reshape(steps, len(self.paces))

    def step_seconds(self, seed: int, steps: int, begin_seconds: float = 0.0) -> FloatArray:
        """Seconds of each of the first `steps` steps, float64 (steps,).

        Each is the replay's with that step's own passes. If the slowest passes of a phase take over `MOST_REPLAYED`
        different times, so many are replayed, evenly spaced in their order, and others lie between two of these; as
        queues change their order at some lengths, single ones are off by up to some thousandths. What it saves that
        other replicas are faster is that of the most similar of `MOST_APART` steps.
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
        passes, now = self.pass_seconds(seed, steps), begin_seconds
        for phase, end in enumerate((*self.phase_starts[1:], math.inf)):
            while len(passes) and now < end:
                # No step is shorter than its passes, so that no more than these begin before the phase is over.
                may = 1 + int(np.searchsorted(now + np.cumsum(passes.max(axis=1)[:-1]), end))
                seconds = self._of_phase(phase, passes[:may])
                count = 1 + int(np.searchsorted(now + np.cumsum(seconds[:-1]), end))
                yield phase, seconds[:count]
                now += float(seconds[:count].sum())
                passes = passes[count:]

    def _of_phase(self, phase: int, passes: FloatArray) -> FloatArray:
        """Seconds of steps in a phase whose passes take `passes` (steps, replicas)."""
        slowest = passes.max(axis=1)
        seconds = self._replayed(self.by_phase[phase], slowest)
        unlike = np.flatnonzero(passes.min(axis=1) < slowest)
        if not self.apart or not len(unlike):
            return seconds
        order = unlike[np.argsort(slowest[unlike], kind="stable")]
        known = order[np.linspace(0, len(order) - 1, min(len(order), MOST_APART)).round().astype(np.intp)]
        apart = self.apart[phase]
        own = np.array([apart.taking_each(row).seconds(self.coefficients) for row in passes[known].tolist()])
        saved = np.clip(seconds[known] - own, 0.0, seconds[known] - slowest[known])
        seconds[unlike] -= saved[cdist(passes[unlike], passes[known]).argmin(axis=1)]
        return seconds

    def _replayed(self, step: Step, slowest: FloatArray) -> FloatArray:
        """Seconds of steps, each like `step` with passes that take as long as `slowest` says."""
        lengths = np.unique(slowest)
        if len(lengths) > MOST_REPLAYED:
            lengths = lengths[np.linspace(0, len(lengths) - 1, MOST_REPLAYED).round().astype(np.intp)]
        replayed = [step.taking(each).seconds(self.coefficients) for each in lengths.tolist()]
        return np.asarray(np.interp(slowest, lengths, replayed))

"""Virtual time: paced steps without waiting. Pass durations are drawn as in a trial, and communication is replayed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.spatial.distance import cdist

from autosync.cost.capacity import paces_of
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.recipes import MANY
from autosync.cost.replay.step import ReplayedStep, step_of
from autosync.errors import SpecError
from autosync.numeric import FloatArray, IntArray
from autosync.spec import ClusterSpec, KeptPace, ModelProfile, ModelSpec, Pace, Strategy

MOST_REPLAYED = 512
"""The maximum number of pass durations that are replayed (milliseconds each); other durations are interpolated."""

MOST_APART = 256
"""The maximum number of steps that are replayed with separate passes for each replica. The saving of any other step is
that of the most similar replayed step."""


@final
@dataclass(frozen=True, eq=False)
class VirtualClock:
    """Steps of one strategy on a paced cluster, timed by the replay.

    Steps count from 0 as in a trial, including the first step and the warm-up. A seed gives the same draws as a trial
    with that seed. Every replica's passes take their drawn time, and the replica sends gradients as soon as they are
    ready; with `MANY` or more replicas, all take as long as the slowest. The seconds are *virtual* and are never
    compared with *paced* or *real* seconds; records of virtual steps hold `kept`.

    If links change over time, the virtual clock selects the phase: a step has the rates of the phase in which it begins
    until its end. `begin_seconds`, in several methods, is the time at which the first requested step begins.
    """

    by_phase: tuple[ReplayedStep, ...]
    """The step in each phase, with common passes."""

    apart: tuple[ReplayedStep, ...]
    """The step in each phase, with separate passes for each replica; empty if passes are not separated."""

    phase_starts: tuple[float, ...]
    """The start of each phase, in seconds since the cluster started."""

    profile: ModelProfile

    paces: tuple[tuple[str, Pace], ...]
    """(device, pace) of each replica."""

    numbers: str
    """`ClusterSpec.numbers`, for records."""

    coefficients: ReplayCoefficients

    @classmethod
    def of(
        cls,
        model: ModelSpec,
        cluster: ClusterSpec,
        strategy: Strategy,
        coefficients: ReplayCoefficients | None = None,
    ) -> VirtualClock:
        """The clock of `strategy`, with the coefficients of a fitted replay, or the defaults.

        Raises `SpecError` if passes are not paced, if steps are not synchronous, or if the strategy does not fit.
        """
        profile = model.pace_profile
        if not cluster.paced or profile is None:
            raise SpecError(
                "Virtual time needs a profiled model on a paced cluster. Give the cluster's nodes a pace, and the "
                "model a profile."
            )
        if strategy.staleness:
            raise SpecError(
                "Steps on a paced cluster are synchronous, also in virtual time. Use a strategy without staleness."
            )
        paces = tuple(paces_of(cluster, strategy.replicas))
        starts = cluster.phase_starts
        of_phases = [cluster.at(start) if start else cluster for start in starts]
        steps = tuple(step_of(model, phase, strategy) for phase in of_phases)
        separate = 1 < len(paces) < MANY
        apart = tuple(step_of(model, phase, strategy, apart=True) for phase in of_phases) if separate else ()
        return cls(steps, apart, starts, profile, paces, cluster.numbers, coefficients or ReplayCoefficients())

    def pass_seconds(self, seed: int, steps: int) -> FloatArray:
        """Seconds of each replica's passes in the first `steps` steps, float64 (steps, replicas)."""
        drawn = [
            [pace.seconds(self.profile, seed, step, device) for device, pace in self.paces] for step in range(steps)
        ]
        return np.array(drawn, dtype=np.float64).reshape(steps, len(self.paces))

    def step_seconds(self, seed: int, steps: int, begin_seconds: float = 0.0) -> FloatArray:
        """Seconds of each of the first `steps` steps, float64 (steps,).

        Every step is replayed with its own passes. If the slowest passes of a phase have more than `MOST_REPLAYED`
        different durations, only that many are replayed, evenly spaced in order, and the others are interpolated.
        Because queues change their order at some durations, single steps are off by up to some thousandths. The time
        saved because other replicas are faster is taken from the most similar of `MOST_APART` steps.
        """
        parts = [seconds for _, seconds in self._phase_by_phase(seed, steps, begin_seconds)]
        return np.concatenate([np.zeros(0), *parts])

    def phases(self, seed: int, steps: int, begin_seconds: float = 0.0) -> IntArray:
        """The phase (from 0) in which each of the first `steps` steps begins, int64 (steps,)."""
        parts = [np.full(len(seconds), phase) for phase, seconds in self._phase_by_phase(seed, steps, begin_seconds)]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def kept(self, seed: int, steps: int) -> KeptPace:
        """The pace report in a record of the first `steps` steps: the pace is *virtual*, and kept exactly."""
        seconds = tuple(float(median) for median in np.median(self.pass_seconds(seed, steps), axis=0))
        late = (0.0,) * len(seconds)
        return KeptPace("virtual", self.numbers, 0, seconds, seconds, late, late)

    def _phase_by_phase(self, seed: int, steps: int, begin_seconds: float) -> Iterator[tuple[int, FloatArray]]:
        """(phase, seconds) of consecutive parts of the first `steps` steps; two consecutive parts may share a phase."""
        passes, now = self.pass_seconds(seed, steps), begin_seconds
        for phase, end in enumerate((*self.phase_starts[1:], math.inf)):
            while len(passes) and now < end:
                # No step is shorter than its passes, so at most `may` steps begin before the phase ends.
                may = 1 + int(np.searchsorted(now + np.cumsum(passes.max(axis=1)[:-1]), end))
                seconds = self._of_phase(phase, passes[:may])
                count = 1 + int(np.searchsorted(now + np.cumsum(seconds[:-1]), end))
                yield phase, seconds[:count]
                now += float(seconds[:count].sum())
                passes = passes[count:]

    def _of_phase(self, phase: int, passes: FloatArray) -> FloatArray:
        """Seconds of steps in a phase, given the seconds of their passes, (steps, replicas)."""
        slowest = passes.max(axis=1)
        seconds = self._replay_seconds(self.by_phase[phase], slowest)
        unequal = np.flatnonzero(passes.min(axis=1) < slowest)
        if not self.apart or not len(unequal):
            return seconds
        order = unequal[np.argsort(slowest[unequal], kind="stable")]
        known = order[np.linspace(0, len(order) - 1, min(len(order), MOST_APART)).round().astype(np.intp)]
        apart = self.apart[phase]
        separate = np.array(
            [apart.with_separate_passes(row).seconds(self.coefficients) for row in passes[known].tolist()]
        )
        saved = np.clip(seconds[known] - separate, 0.0, seconds[known] - slowest[known])
        seconds[unequal] -= saved[cdist(passes[unequal], passes[known]).argmin(axis=1)]
        return seconds

    def _replay_seconds(self, step: ReplayedStep, slowest: FloatArray) -> FloatArray:
        """Seconds of copies of `step` whose passes take the seconds in `slowest`."""
        lengths = np.unique(slowest)
        if len(lengths) > MOST_REPLAYED:
            lengths = lengths[np.linspace(0, len(lengths) - 1, MOST_REPLAYED).round().astype(np.intp)]
        replayed = [step.with_pass_seconds(length).seconds(self.coefficients) for length in lengths.tolist()]
        return np.asarray(np.interp(slowest, lengths, replayed))

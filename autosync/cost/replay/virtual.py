"""Paced steps without waiting: what passes take is drawn as a trial draws it, and all that follows is replayed."""

from __future__ import annotations

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

MOST_REPLAYED = 512
"""The most lengths of passes that are replayed, of which each takes milliseconds; steps in between are interpolated."""


@final
@dataclass(frozen=True, eq=False)
class VirtualClock:
    """Steps of one strategy on a paced cluster, whose seconds are worked out by the replay.

    Steps are counted from 0, as a trial counts them, its first one and warm-up included; a seed gives the draws that a
    trial with that seed waits for. Passes of a step take as long as those of its slowest replica. Its seconds are
    *virtual*, which is never compared with *paced* or *real*: records of them hold what `kept` says.
    """

    step: Step
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
        step = step_of(model, cluster, strategy)
        return cls(step, profile, paces, cluster.numbers, coefficients or ReplayCoefficients())

    def pass_seconds(self, seed: int, steps: int) -> FloatArray:
        """What each replica's passes take in the first `steps` steps, float64 (steps, replicas)."""
        drawn = [
            [pace.seconds(self.profile, seed, step, device) for device, pace in self.paces] for step in range(steps)
        ]
        return np.array(drawn, dtype=np.float64).reshape(steps, len(self.paces))

    def step_seconds(self, seed: int, steps: int) -> FloatArray:
        """Seconds of each of the first `steps` steps, float64 (steps,).

        Each is the replay's with that step's own passes. If passes take over `MOST_REPLAYED` different times, so many
        are replayed, evenly spaced in their order, and others lie between two of these; as queues change their order at
        some lengths, single ones are off by up to some thousandths.
        """
        slowest = self.pass_seconds(seed, steps).max(axis=1)
        lengths = np.unique(slowest)
        if len(lengths) > MOST_REPLAYED:
            lengths = lengths[np.linspace(0, len(lengths) - 1, MOST_REPLAYED).round().astype(np.intp)]
        replayed = [self.step.taking(each).seconds(self.coefficients) for each in lengths.tolist()]
        return np.asarray(np.interp(slowest, lengths, replayed)) if steps else slowest

    def kept(self, seed: int, steps: int) -> KeptPace:
        """What a record of the first `steps` steps says of its pace: it is *virtual*, and kept exactly."""
        seconds = tuple(float(each) for each in np.median(self.pass_seconds(seed, steps), axis=0))
        late = (0.0,) * len(seconds)
        return KeptPace("virtual", self.numbers, 0, seconds, seconds, late, late)

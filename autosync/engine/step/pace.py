"""Paced passes: a replica's gradients are released at their times by a chain of waits on its device.

The chain is of stateless calls into Python, since TensorFlow would put stateful ones of all replicas in a row. Each
wait is until an absolute deadline, so that what one is late by does not delay the next; one thread a replica waits.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.engine.step.replica import Results
from autosync.engine.training.feed import offered
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, Device, ModelSpec, Pace
from autosync.spec.pace import releases

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Waits:
    """The tokens by which a process offers the beginning of a pass, and the wait until a time after it, to ops."""

    begin: str
    until: str


@cache
def offered_waits() -> Waits:
    """Offer both to ops in this process, as long as it lives."""
    return Waits(offered(_begin), offered(_until))  # type: ignore[arg-type]


def _begin(_: Any) -> Any:
    """When a pass begins, by this process's clock."""
    return np.float64(time.perf_counter())


def _until(begun: Any, seconds: Any) -> Any:
    """Wait until `seconds` after a pass has begun; how late it is then."""
    due = float(begun) + float(seconds)
    left = due - time.perf_counter()
    if left > 0:
        time.sleep(left)
    return np.float64(time.perf_counter() - due)


@dataclass(frozen=True)
class Release:
    """Variables, by their numbers, whose gradients are released together, `fraction` of a pass after its beginning."""

    fraction: float
    variables: tuple[int, ...]


@dataclass(frozen=True)
class Pacing:
    """How the passes of a strategy's replicas are paced: by what pace each, through which waits, in which releases."""

    model: ModelSpec
    devices: tuple[str, ...]
    paces: tuple[Pace, ...]
    waits: tuple[Waits, ...]
    releases: tuple[Release, ...]

    @classmethod
    def of(cls, devices: Sequence[str], model: ModelSpec, cluster: ClusterSpec, waits: Sequence[Waits]) -> Pacing:
        """The pacing of replicas on `devices` of a paced cluster. Raises `SpecError` for a model without a profile."""
        profile = model.pace_profile
        if profile is None:
            raise SpecError(f"Passes are paced by a model's profile, but {model.name!r} has none; capture it anew.")
        numbers = {variable.name: number for number, variable in enumerate(model.variables)}
        paces = [cluster.node(Device.parse(each).node).pace for each in devices]
        return cls(
            model,
            tuple(devices),
            tuple(each for each in paces if each is not None),
            tuple(waits),
            tuple(Release(time, tuple(numbers[name] for name in names)) for time, names in releases(profile)),
        )

    @property
    def held(self) -> bool:
        """Whether passes are real, and their gradients held."""
        return self.paces[0].numbers == "held"

    def seconds(self, seed: int, step: int, shares: Sequence[float] | None = None) -> Array:
        """Seconds of every replica's pass, float64 (replicas,); `shares` as in `Pace.seconds`."""
        profile = self.model.pace_profile
        assert profile is not None
        each = zip(self.paces, self.devices, shares or [1.0] * len(self.devices), strict=True)
        return np.array([pace.seconds(profile, seed, step, device, share) for pace, device, share in each])


def released(
    device: str, waits: Waits, plan: Sequence[Release], values: Sequence[Any], seconds: Any, results: Results
) -> tuple[Results, Any]:
    """`results`, each gradient not before its time; and how late each release was, float64 (releases,).

    Called while a step is traced. The pass begins when all pulled `values` are on the replica's `device`; `seconds`,
    a float64 scalar given at run time, is how long it takes. A gradient that comes after its time makes its release
    late.
    """
    import tensorflow as tf

    gradients, factors = dict(results.gradients), dict(results.factors)
    late: list[Any] = []
    with tf.device(device):
        with tf.control_dependencies([tf.identity(each) for each in values]):  # here, not where they came from
            (begun,) = tf.raw_ops.PyFuncStateless(input=[seconds], token=waits.begin, Tout=[tf.float64])
        for each in plan:
            ready = [gradients[number] for number in each.variables if number in gradients]
            ready += [factor for number in each.variables for factor in factors.get(number, ())]
            with tf.control_dependencies([*ready, *late[-1:]]):
                (lateness,) = tf.raw_ops.PyFuncStateless(
                    input=[begun, seconds * each.fraction], token=waits.until, Tout=[tf.float64]
                )
            lateness.set_shape([])
            late.append(lateness)
            with tf.control_dependencies([lateness]):
                for number in each.variables:
                    if number in gradients:
                        gradients[number] = tf.identity(gradients[number])
                    else:
                        a, b = factors[number]
                        factors[number] = tf.identity(a), tf.identity(b)
        return Results(results.loss, gradients, factors), tf.stack(late)

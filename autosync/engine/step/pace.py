"""Paced passes: a replica's gradients are released at their times by a chain of waits on its device.

The chain is of stateless calls into Python, since TensorFlow would put stateful ones of all replicas in a row. Each
wait is until an absolute deadline, so that what one is late by does not delay the next; one thread a replica waits.

Between two releases a worker sleeps, and what runs after that runs in cold caches, several times as long. So a release
is one call of one number, all times of a pass are worked out when it begins, and its last wait makes the report of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.engine.step.replica import Results
from autosync.engine.training.feed import offered_arrays
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, Decision, Device, ModelSpec, Pace
from autosync.spec.pace import releases

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Waits:
    """The tokens by which a process offers to ops the beginning of a pass, the wait for a release, and its end."""

    begin: str
    until: str
    end: str


@cache
def offered_waits() -> Waits:
    """Offer all to ops in this process, as long as it lives."""
    return Waits(*(offered_arrays(each) for each in (_begin, _until, _end)))


def _begin(seconds: Array, turn: Any, fractions: Array, *delays: Array) -> list[Array]:
    """A pass of `seconds[turn]` begins, or does so after `delays[turn]`: that, and by this process's clock the time of
    each release.
    """
    own, begin = seconds.item(int(turn)), time.perf_counter()
    begin += sum(each.item(int(turn)) for each in delays)
    return [np.array(own), *(np.array(begin + own * each) for each in fractions.tolist())]


def _until(due: Array) -> Array:
    """Wait until it is `due`; how late it is then."""
    return np.array(_waited(due.item()))


def _end(due: Array, loss: Any, seconds: Array, *late: Array) -> Array:
    """Wait for the last release; the report of the pass: its loss, its seconds, and how late every release was."""
    last = _waited(due.item())
    return np.array((float(loss), seconds.item(), *(each.item() for each in late), last))


def _waited(due: float) -> float:
    left = due - time.perf_counter()
    if left > 0:
        time.sleep(left)
    return time.perf_counter() - due


@dataclass(frozen=True)
class Release:
    """Variables, by their numbers, whose gradients are released together, `fraction` of a pass after its beginning."""

    fraction: float
    variables: tuple[int, ...]


@dataclass(frozen=True)
class Pacing:
    """How the passes of a strategy's replicas are paced: by what pace each, through which waits, in which releases.

    With an `exchange` time is virtual: nothing is waited for, and a step takes as long as the passes that count would,
    and then what the exchange of its decision is said to take, in seconds.
    """

    model: ModelSpec
    devices: tuple[str, ...]
    paces: tuple[Pace, ...]
    waits: tuple[Waits, ...]
    releases: tuple[Release, ...]
    exchange: Callable[[Decision], float] | None = None

    @classmethod
    def of(
        cls,
        devices: Sequence[str],
        model: ModelSpec,
        cluster: ClusterSpec,
        waits: Sequence[Waits],
        exchange: Callable[[Decision], float] | None = None,
    ) -> Pacing:
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
            exchange,
        )

    @property
    def held(self) -> bool:
        """Whether passes are real, and their gradients held."""
        return self.paces[0].numbers == "held"

    @property
    def rates(self) -> tuple[float | None, ...]:
        """How many examples a second come to each replica; None where all are there."""
        return tuple(each.stream for each in self.paces)

    def seconds(self, seed: int, step: int, shares: Sequence[float] | None = None) -> Array:
        """Seconds of every replica's pass, float64 (replicas,); `shares` as in `Pace.seconds`."""
        profile = self.model.pace_profile
        assert profile is not None
        each = zip(self.paces, self.devices, shares or [1.0] * len(self.devices), strict=True)
        return np.array([pace.seconds(profile, seed, step, device, share) for pace, device, share in each])


@dataclass(frozen=True)
class Duration:
    """How long a pass takes, in tensors: element `turn`, an int32 scalar, of `seconds`, float64 (any number,).

    It begins after that element of `delays`, if there are any.
    """

    seconds: Any
    delays: Any
    turn: Any


def released(
    device: str, waits: Waits, plan: Sequence[Release], values: Sequence[Any], duration: Duration, results: Results
) -> tuple[Results, Any]:
    """`results`, each gradient not before its time; and the report of the pass, float64 (2 + releases,), as of `_end`.

    Called while a step is traced. The pass begins when all pulled `values` are on the replica's `device`; how long it
    takes is given at run time. A gradient that comes after its time makes its release late.
    """
    import tensorflow as tf

    gradients, factors = dict(results.gradients), dict(results.factors)
    late: list[Any] = []
    after: list[Any] = []
    last = len(plan) - 1
    with tf.device(device):
        with tf.control_dependencies([tf.identity(each) for each in values]):  # here, not where they came from
            fractions = tf.constant([each.fraction for each in plan], tf.float64)
            given = [duration.seconds, duration.turn, fractions]
            given += [] if duration.delays is None else [duration.delays]
            seconds, *due = _called(waits.begin, given, 1 + len(plan))
        for place, each in enumerate(plan):
            ready = [gradients[number] for number in each.variables if number in gradients]
            ready += [factor for number in each.variables for factor in factors.get(number, ())]
            with tf.control_dependencies([*ready, *after]):
                if place < last:
                    late += _called(waits.until, [due[place]])
                else:
                    late += _called(waits.end, [due[place], results.loss, seconds, *late])
            with tf.control_dependencies(late[-1:]):
                for number in each.variables:
                    if number in gradients:
                        gradients[number] = tf.identity(gradients[number])
                    else:
                        a, b = factors[number]
                        factors[number] = tf.identity(a), tf.identity(b)
                # Behind all that this release lets go: the thread that has waited then goes on to wait itself. An
                # operation beside others is given to another thread, which is woken for it.
                go = [gradients.get(number, factors.get(number)) for number in each.variables]
                with tf.control_dependencies(tf.nest.flatten(go)):
                    after = [tf.no_op()]
        report = late[-1]
        report.set_shape([2 + len(plan)])
        return Results(results.loss, gradients, factors), report


def _called(token: str, inputs: Sequence[Any], outputs: int = 1) -> list[Any]:
    """The tensors, float64, that come of the function offered as `token`."""
    import tensorflow as tf

    return list(tf.raw_ops.PyFuncStateless(input=inputs, token=token, Tout=[tf.float64] * outputs))

"""Paced passes in a graph: a chain of waits on a replica's device releases the replica's gradients at their times.

The waits are stateless calls into Python (`engine/core/pacing.py`), because TensorFlow would run stateful calls of all
replicas one after another. One thread a replica waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import tensorflow as tf

from autosync.engine.core.pacing import Moment, Waits, begin_pass, end_pass, wait_until
from autosync.engine.tensorflow.step.replica import Results
from autosync.engine.tensorflow.training.feed import offer_array_function


@cache
def offer_waits() -> Waits:
    """Offer all waits to ops in this process, until the process ends."""
    return Waits(*(offer_array_function(function) for function in (begin_pass, wait_until, end_pass)))


@dataclass(frozen=True)
class Duration:
    """The length of a pass, as tensors: element `turn`, an int32 scalar, of `seconds`, float64 (any length,).

    The pass begins after the same element of `delays`, in seconds; None for no delays.
    """

    seconds: tf.Tensor
    delays: Any
    turn: tf.Tensor


def release_results(
    device: str,
    waits: Waits,
    plan: Sequence[Moment],
    values: Sequence[tf.Tensor],
    duration: Duration,
    results: Results,
) -> tuple[Results, Any]:
    """Delay each gradient of `results` until its release time; return the results, and the report of the pass.

    The report, float64 (2 + releases,), is the result of `end_pass`. Call this while a step is traced. The pass begins
    when all pulled `values` are on the replica's `device`. Its length is known only at run time. A gradient that is
    ready after its time makes its release late.
    """
    gradients, factors = dict(results.gradients), dict(results.factors)
    late: list[Any] = []
    after: list[Any] = []
    last = len(plan) - 1
    with tf.device(device):
        with tf.control_dependencies([tf.identity(value) for value in values]):  # on this device, not on the senders
            fractions = tf.constant([release.fraction for release in plan], tf.float64)
            arguments = [duration.seconds, duration.turn, fractions]
            arguments += [] if duration.delays is None else [duration.delays]
            seconds, *due = _call(waits.begin, arguments, 1 + len(plan))
        for place, release in enumerate(plan):
            ready = [gradients[number] for number in release.variables if number in gradients]
            ready += [factor for number in release.variables for factor in factors.get(number, ())]
            with tf.control_dependencies([*ready, *after]):
                if place < last:
                    late += _call(waits.until, [due[place]])
                else:
                    late += _call(waits.end, [due[place], results.loss, seconds, *late])
            with tf.control_dependencies(late[-1:]):
                for number in release.variables:
                    if number in gradients:
                        gradients[number] = tf.identity(gradients[number])
                    else:
                        a, b = factors[number]
                        factors[number] = tf.identity(a), tf.identity(b)
                # The next wait depends on all tensors of this release, so that the thread that has waited runs the next
                # wait itself. TensorFlow would wake another thread for an operation that is ready together with others.
                released = [gradients.get(number, factors.get(number)) for number in release.variables]
                with tf.control_dependencies(tf.nest.flatten(released)):
                    after = [tf.no_op()]
        report = late[-1]
        report.set_shape([2 + len(plan)])
        return Results(results.loss, gradients, factors), report


def _call(token: str, inputs: Sequence[Any], outputs: int = 1) -> list[Any]:
    """Return the float64 results of the function that is offered as `token`."""
    return list(tf.raw_ops.PyFuncStateless(input=inputs, token=token, Tout=[tf.float64] * outputs))

"""A client that uses TensorFlow's collectives on real servers, provokes a failure, and connects again.

It runs as its own process, because connecting changes a process permanently. `python -m tests.engine.collective_client
ADDRESS ...` prints the results as one JSON object.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.servers import connect
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.sync.all_reduce.collective import collective_mean
from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.wire import PLAIN
from tests.cases import local_cluster
from tests.contracts.parity import BOUNDS, captured_task, reference, trained_alike
from tests.contracts.ways import ALONE

__all__ = ["ROUNDS", "WAYS"]

ROUNDS = 3
"""The number of times that each of `WAYS` trains on each connection."""

WAYS = ("one ring", "a collective a variable", "one server", "one collective")


def _trained(addresses: Sequence[str], again: bool = True) -> list[float]:
    """The worst error of every trial on a new connection, for all strategies. The client supplies the batches."""
    gc.collect()
    connect(addresses, again=again)
    cluster = local_cluster(len(addresses))
    session = TensorFlowSession(captured_task("dense", "momentum"), cluster, Placement.on_workers(cluster))
    expected = reference("dense", "momentum", len(addresses))
    errors = []
    for _ in range(ROUNDS):
        for way in WAYS:
            step = session.realize(ALONE[way](session.model, cluster))
            errors.append(trained_alike(step, expected, BOUNDS["momentum"]).worst_error)
    return errors


def _failing(count: int) -> Any:
    """A function with one collective, in which the last worker's op fails if the argument says so."""
    cluster = local_cluster(count)
    devices = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(count)]
    members = Members.of(Placement.on_workers(cluster), [f"node0/cpu:{number}" for number in range(count)])

    def mean(fails: Any) -> Any:
        parts = []
        for number, device in enumerate(devices):
            with tf.device(device):
                part = tf.fill([5], float(number))
                if number == count - 1:
                    part = tf.debugging.check_numerics(part / tf.cast(tf.logical_not(fails), tf.float32), "told to")
                parts.append(part)
        (first,), *_ = collective_mean(members, parts, PLAIN)
        return first

    return tf.function(mean, autograph=False)


def _outcome(count: int, fails: bool) -> Any:
    try:
        return np.asarray(_failing(count)(tf.constant(fails))).tolist()
    except tf.errors.OpError as error:
        return str(error)


def _run(addresses: Sequence[str]) -> None:
    found: dict[str, Any] = {"errors": _trained(addresses, again=False) + _trained(addresses)}
    found["before"] = _outcome(len(addresses), fails=False)
    found["failed"] = _outcome(len(addresses), fails=True)
    found["after"] = _outcome(len(addresses), fails=False)
    found["errors anew"] = _trained(addresses)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    _run(sys.argv[1:])

"""The parity of a few cases over real servers. It runs as its own process, because connecting changes it permanently.

`python -m tests.contracts.over_servers usual|more ADDRESS ...` prints one JSON object for each of these `CASES`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace

from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.servers import connect
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.spec import Strategy
from tests.cases import star_cluster
from tests.contracts.compressed_training import Run, compressed_reference
from tests.contracts.parity import BOUNDS, Reference, captured_task, reference, trained_alike
from tests.contracts.ways import ALONE, COMPRESSED, random_mixture

__all__ = ["CASES"]

USUAL = (
    ("table", "SGD", "rings, sparse on servers"),
    ("pooled", "momentum", "shards of both kinds"),
    ("pooled", "Adam", "random mixture"),
    ("recurrent", "momentum", "a collective a variable"),
    ("convolution", "Adam", "every algorithm"),
    ("dense", "momentum", "top-k, own"),
    ("dense", "momentum", "top-k, var, ring, last axis cut"),
    ("dense", "momentum", "PowerSGD, servers"),
    ("dense", "SGD", "PowerSGD, collective"),
    ("dense", "SGD", "top-k, star, collective"),
)
MORE = (
    ("two inputs", "Adam", "servers, first axis cut"),
    ("convolution", "momentum", "two rings"),
    ("recurrent", "Adam", "one server, local copies"),
    ("dense", "SGD", "top-k, star, tree"),
    ("dense", "SGD", "PowerSGD, ring"),
)
CASES = {"usual": USUAL, "more": MORE}
"""(task, optimizer, way to synchronize), on two nodes of two workers."""


def _strategy(way: str, session: TensorFlowSession) -> Strategy:
    if way == "random mixture":
        return random_mixture(session.model, session.cluster, random.Random(5))
    return (ALONE | COMPRESSED)[way](session.model, session.cluster)


def _expected(task: str, optimizer: str, way: str, session: TensorFlowSession, strategy: Strategy) -> Reference:
    if way in COMPRESSED:
        steps = 8 if "PowerSGD" in way else 20  # `test_compression_contract.BOUND`
        return compressed_reference(Run(task, optimizer, steps), session.model, strategy)
    return reference(task, optimizer, len(strategy.replicas))


def _check_overlap(session: TensorFlowSession, strategy: Strategy) -> None:
    """Raise `AssertionError` unless calls of four overlapping steps end at the bits of single steps."""
    single, overlapped = (
        session.realize(replace(strategy, overlap_next_forward=overlaps)) for overlaps in (False, True)
    )
    assert isinstance(overlapped, SynchronousStep)
    losses = [*overlapped.several(4), *overlapped.several(4)]
    assert losses == [single() for _ in losses], "The losses of overlapping steps differ."
    expected, values = single.values(), overlapped.values()
    assert all(values[name].tobytes() == value.tobytes() for name, value in expected.items()), "Their values differ."


def _run(which: str, addresses: Sequence[str]) -> None:
    connect(addresses)
    cluster = star_cluster(nodes=2, workers=2)
    for task, optimizer, way in CASES[which]:
        session = TensorFlowSession(captured_task(task, optimizer), cluster, Placement.on_workers(cluster))
        report = {"case": [task, optimizer, way], "failure": None}
        try:
            strategy = _strategy(way, session)
            expected = _expected(task, optimizer, way, session, strategy)
            parity = trained_alike(session.realize(strategy), expected, BOUNDS[optimizer])
            _check_overlap(session, strategy)
            report |= {"error": parity.worst_error, "variable": parity.worst_variable}
        except Exception as error:
            report["failure"] = f"{type(error).__name__}: {error}"
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2:])

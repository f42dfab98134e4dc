"""One turn of a strategy in a session, as a row; pairs of sessions in turns; figures over rounds, in words."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from autosync.errors import TrialError
from autosync.spec import ClusterSpec, Pace, Strategy, median_interval
from tests.by_hand.pacing.kept import Kept, Row
from tests.by_hand.peers.engine import Engine, engine_on
from tests.by_hand.peers.processors import jiffies
from trials.emulate import emulated

__all__ = [
    "REAL",
    "by_round",
    "engine_over",
    "in_turns",
    "in_words",
    "median",
    "paced_like",
    "realized",
    "steady",
    "table",
    "turn",
]

REAL = "real"
"""The session whose passes are computed; others are named for their pace."""


def steady(milliseconds: float) -> Pace:
    """Passes that always take as long, whatever the model."""
    return Pace(0.0, milliseconds / 1e3)


@contextmanager
def engine_over(name: str, cluster: ClusterSpec, cpus: Sequence[int] = ()) -> Iterator[Engine]:
    """The engine over `cluster`, emulated as `name`; each worker can pace a replica. `cpus` are as in `engine_on`."""
    with emulated(name, cluster, start_ray=False) as made, engine_on(made, 1, cpus) as engine:
        yield engine


def paced_like(cluster: ClusterSpec, pace: Pace | Callable[[str], Pace]) -> ClusterSpec:
    """`cluster` with all nodes paced, or each as `pace` says of its name."""
    return replace(
        cluster,
        nodes=tuple(replace(node, pace=pace if isinstance(pace, Pace) else pace(node.name)) for node in cluster.nodes),
    )


def realized(engine: Engine, strategy: Strategy, sessions: Iterable[str], warmup: int, seed: int = 0) -> str | None:
    """Realize `strategy` in every session and warm it up; why it cannot be, or None."""
    for session in sessions:
        try:
            engine.realize(strategy, session, seed)
        except TrialError as error:
            return str(error)
        engine.run(warmup, 0, session)
    return None


def turn(engine: Engine, session: str, steps: int, pause: float = 0.0) -> Row:
    """What a turn of `steps` steps, with `pause` seconds before each, came to: their seconds, how late, and what
    processors did meanwhile.

    `busy_share` is of all the machine's processors, `servers_seconds` the processor's seconds of each server in a step.
    Of a paced session, over all replicas' releases: late_p50, late_p99 and the latest, in seconds.
    """
    load, before, spent = os.getloadavg()[0], jiffies(), engine.servers_cpu_seconds()
    said = engine.run(0, steps, session, pause)
    passed, after = jiffies() - before, engine.servers_cpu_seconds()
    row: Row = {
        "load_average": load,
        "step_seconds": said["step_seconds"],
        "servers_seconds": [(late - early) / steps for early, late in zip(spent, after, strict=True)],
        "busy_share": passed.busy / max(passed.all, 1),
    }
    if "late_seconds" in said:
        late = np.ravel(said["late_seconds"])
        row |= {
            "pass_seconds": np.max(said["pass_seconds"], axis=1).tolist(),
            "late_p50": float(np.quantile(late, 0.5)),
            "late_p99": float(np.quantile(late, 0.99)),
            "latest": float(late.max()),
            "first_step": said["first_step"],
        }
    return row


def in_turns(
    engine: Engine,
    kept: Kept,
    sessions: Sequence[str],
    rounds: int,
    steps: int,
    pauses: Mapping[str, float] | None = None,
    **fields: Any,
) -> None:
    """Rows of what is realized in `sessions`: each round has a turn of each, every other round backwards (A/B/B/A).

    `pauses` are seconds before each step, by session.
    """
    for number in range(rounds):
        for session in sessions if number % 2 == 0 else reversed(sessions):
            if not kept.has(session=session, round=number, **fields):
                kept.add(
                    session=session,
                    round=number,
                    **fields,
                    **turn(engine, session, steps, (pauses or {}).get(session, 0.0)),
                )


def by_round(rows: Iterable[Row], figure: Callable[[Row], float]) -> dict[int, float]:
    """`figure` of each round's row."""
    return {row["round"]: figure(row) for row in rows}


def median(rows: Iterable[Row]) -> dict[int, float]:
    """The median seconds of a step, by round."""
    return by_round(rows, lambda row: statistics.median(row["step_seconds"]))


def in_words(values: Iterable[float], scale: float = 1.0, digits: int = 1) -> str:
    """The median of one value a round with its 95 % interval, which with under six rounds is their range."""
    found = [scale * each for each in values]
    if not found:
        return "-"
    low, high = median_interval(found)
    return f"{statistics.median(found):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(each) + " |" for each in lines)

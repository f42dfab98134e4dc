"""Runs turns of a strategy in several sessions, as rows, and formats figures over rounds."""

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
from studies.by_hand.pacing.pace_results import PaceResults, Row
from studies.by_hand.peers.engine import EngineDriver, start_engine
from studies.by_hand.peers.processors import jiffies
from trials.emulate import emulated

__all__ = [
    "REAL",
    "by_round",
    "in_turns",
    "in_words",
    "median",
    "open_engine",
    "realize_in",
    "steady",
    "table",
    "turn",
    "with_pace",
]

REAL = "real"
"""The session with computed passes; the other sessions are named by their pace."""


def steady(milliseconds: float) -> Pace:
    """Return the pace of passes with a constant duration, for any model."""
    return Pace(0.0, milliseconds / 1e3)


@contextmanager
def open_engine(name: str, cluster: ClusterSpec, cpus: Sequence[int] = ()) -> Iterator[EngineDriver]:
    """Emulate `cluster` as `name` and start an engine whose workers can each pace a replica. `cpus`: see
    `start_engine`."""
    with emulated(name, cluster, start_ray=False) as made, start_engine(made, 1, cpus) as engine:
        yield engine


def with_pace(cluster: ClusterSpec, pace: Pace | Callable[[str], Pace]) -> ClusterSpec:
    """Return `cluster` with paced nodes; `pace` is the pace of all nodes, or a function of the node's name."""
    return replace(
        cluster,
        nodes=tuple(replace(node, pace=pace if isinstance(pace, Pace) else pace(node.name)) for node in cluster.nodes),
    )


def realize_in(
    engine: EngineDriver, strategy: Strategy, sessions: Iterable[str], warmup: int, seed: int = 0
) -> str | None:
    """Realize `strategy` in every session and warm up; return the reason of a failure, or None."""
    for session in sessions:
        try:
            engine.realize(strategy, session, seed)
        except TrialError as error:
            return str(error)
        engine.run(warmup, 0, session)
    return None


def turn(engine: EngineDriver, session: str, steps: int, pause: float = 0.0) -> Row:
    """Run `steps` steps with `pause` seconds before each step, and return their figures as a row.

    `step_seconds` are the seconds of the steps, `busy_share` is the share of all processors' time that was busy, and
    `servers_seconds` are each server's processor seconds per step. A paced session also has the lateness over all
    replicas' releases: `late_p50`, `late_p99` and `latest`, in seconds.
    """
    load, before, spent = os.getloadavg()[0], jiffies(), engine.servers_cpu_seconds()
    reply = engine.run(0, steps, session, pause)
    passed, after = jiffies() - before, engine.servers_cpu_seconds()
    row: Row = {
        "load_average": load,
        "step_seconds": reply["step_seconds"],
        "servers_seconds": [(late - early) / steps for early, late in zip(spent, after, strict=True)],
        "busy_share": passed.busy / max(passed.all, 1),
    }
    if "late_seconds" in reply:
        late = np.ravel(reply["late_seconds"])
        row |= {
            "pass_seconds": np.max(reply["pass_seconds"], axis=1).tolist(),
            "late_p50": float(np.quantile(late, 0.5)),
            "late_p99": float(np.quantile(late, 0.99)),
            "latest": float(late.max()),
            "first_step": reply["first_step"],
        }
    return row


def in_turns(
    engine: EngineDriver,
    kept: PaceResults,
    sessions: Sequence[str],
    rounds: int,
    steps: int,
    pauses: Mapping[str, float] | None = None,
    **fields: Any,
) -> None:
    """Measure the missing rows of the strategy realize_in in `sessions`.

    A round has a turn of every session; every second round has the reverse order (A/B/B/A). `pauses` are the seconds
    before each step, by session.
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
    """Return the figure of each row, by round."""
    return {row["round"]: figure(row) for row in rows}


def median(rows: Iterable[Row]) -> dict[int, float]:
    """Return the median seconds of a step, by round."""
    return by_round(rows, lambda row: statistics.median(row["step_seconds"]))


def in_words(values: Iterable[float], scale: float = 1.0, digits: int = 1) -> str:
    """Return the median of one value per round with its 95 % interval, or with the range if there are under six
    rounds."""
    scaled = [scale * value for value in values]
    if not scaled:
        return "-"
    low, high = median_interval(scaled)
    return f"{statistics.median(scaled):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)

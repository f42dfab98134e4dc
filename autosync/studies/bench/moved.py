"""The table of strategies moved: found on one cluster, tried first on another, and what that saves a search there."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from autosync.stats.estimate import Estimate
from autosync.stats.tables import NOTHING, Table
from autosync.studies.bench.columns import WITHIN
from autosync.studies.bench.live_tables import Rows, curve_of, over_seeds, trials_to
from autosync.studies.bench.words import in_times

MOVES = ("--try-first", "--warm-start")
"""Options by which a search begins with what another has found."""

SAME = ("cell", "searcher", "without_rule", "packet_bytes", "budget", "seed")

Row = Mapping[str, Any]


def moved_table(rows: Rows) -> Table:
    """The table of searches that were given a strategy to try first, beside those that were not."""
    return Table(
        "moved",
        "Strategies moved to another cluster",
        "Searches that began with what another search had found (its path names the cluster): a strategy tried first, "
        "or a simulator taught there; beside the same search without. *it*: the best baseline's step time here over "
        "that of the strategy moved; *best with* and *best without*: over that of the best found; all re-measured in "
        f"turns. *trials with* and *trials without*: until one was within {WITHIN - 1:.0%} of the best trial of both, "
        "each in terms of its own best baseline.",
        ("cell", "moved", "asked", "seed", "it", "best with", "best without", "trials with", "trials without"),
        [
            (
                row["cell"],
                ", ".join(moved),
                f"{row['budget']} {rest}".strip(),
                str(row["seed"]),
                _it(row),
                in_times(over_seeds([row])),
                in_times(over_seeds([other])) if other else NOTHING,
                *_trials(row, other),
            )
            for row, moved, rest, other in _pairs(rows)
        ],
    )


def _pairs(rows: Rows) -> Iterator[tuple[Row, list[str], str, Row | None]]:
    """Searches that something was moved to, what was moved, what else was asked, and the search without it, if any."""
    rows = list(rows)
    for row in sorted(rows, key=lambda row: (row["cell"], row["seed"], row["more"])):
        moved, rest = moved_of(row["more"])
        if moved:
            like = (each for each in rows if each["more"] == rest and all(each[name] == row[name] for name in SAME))
            yield row, moved, rest, next(like, None)


def moved_of(more: str) -> tuple[list[str], str]:
    """The files of `MOVES` in what a search was given, and the rest of it."""
    words, moved, rest = iter(more.split()), [], []
    for word in words:
        if word in MOVES:
            moved.append(next(words, ""))
        else:
            rest.append(word)
    return moved, " ".join(rest)


def _it(row: Row) -> str:
    if row["given_speedup"] is None:
        return NOTHING
    return in_times(Estimate(row["given_speedup"], row["given_speedup_low"], row["given_speedup_high"]))


def _trials(row: Row, other: Row | None) -> tuple[str, ...]:
    """After how many trials each was near the best of both."""
    curves = [curve_of(each) if each else [] for each in (row, other)]
    best = min(itertools.chain(*curves))
    return tuple(f"{number:g}" if math.isfinite(number := trials_to(curve, best)) else NOTHING for curve in curves)

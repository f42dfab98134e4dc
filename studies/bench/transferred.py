"""The table of strategies moved from one cluster to another, and of the trials that they save a search there."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from autosync.stats.estimate import Estimate
from autosync.stats.tables import NOTHING, TextTable
from studies.bench.columns import WITHIN
from studies.bench.live_tables import LiveRows, curve_of, over_seeds, trials_to
from studies.bench.words import in_times

MOVES = ("--try-first", "--warm-start")
"""Options by which a search starts from the result of another search."""

SAME = ("cell", "searcher", "without_rule", "packet_bytes", "budget", "seed")

Row = Mapping[str, Any]


def moves_table(rows: LiveRows) -> TextTable:
    """Return the table of searches that started from another search's result, compared with searches that did not."""
    return TextTable(
        "moved",
        "Strategies moved to another cluster",
        "Searches that started from another search's result (the path names the cluster), which is a strategy to try "
        "first or a simulator trained there, compared with the same search without it. *it*: the best baseline's step "
        "time on this cluster divided by that of the moved strategy; *best with* and *best without*: divided by that "
        "of the best strategy found; all re-measured in turns. *trials with* and *trials without*: trials until one "
        f"was within {WITHIN - 1:.0%} of the best trial of both searches, relative to the best baseline of each search."
        "",
        ("cell", "moved", "asked", "seed", "it", "best with", "best without", "trials with", "trials without"),
        [
            (
                row["cell"],
                ", ".join(moved),
                f"{row['budget']} {rest}".strip(),
                str(row["seed"]),
                _moved_speedup(row),
                in_times(over_seeds([row])),
                in_times(over_seeds([without])) if without else NOTHING,
                *_trials(row, without),
            )
            for row, moved, rest, without in _pairs(rows)
        ],
    )


def _pairs(rows: LiveRows) -> Iterator[tuple[Row, list[str], str, Row | None]]:
    """Yield each search with a moved result, the moved files, its further options, and the search without them or
    None."""
    rows = list(rows)
    for row in sorted(rows, key=lambda row: (row["cell"], row["seed"], row["more"])):
        moved, rest = split_moves(row["more"])
        if moved:
            like = (
                candidate
                for candidate in rows
                if candidate["more"] == rest and all(candidate[name] == row[name] for name in SAME)
            )
            yield row, moved, rest, next(like, None)


def split_moves(more: str) -> tuple[list[str], str]:
    """Split a search's options into the files of `MOVES` and the other options."""
    words, moved, rest = iter(more.split()), [], []
    for word in words:
        if word in MOVES:
            moved.append(next(words, ""))
        else:
            rest.append(word)
    return moved, " ".join(rest)


def _moved_speedup(row: Row) -> str:
    if row["given_speedup"] is None:
        return NOTHING
    return in_times(Estimate(row["given_speedup"], row["given_speedup_low"], row["given_speedup_high"]))


def _trials(row: Row, without: Row | None) -> tuple[str, ...]:
    """Return the number of trials after which each search was near the best of both."""
    curves = [curve_of(search) if search else [] for search in (row, without)]
    best = min(itertools.chain(*curves))
    return tuple(f"{number:g}" if math.isfinite(number := trials_to(curve, best)) else NOTHING for curve in curves)

"""The targets of guided search on live clusters, and the results."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autosync.stats.tables import NOTHING, TextTable
from studies.bench.columns import WITHIN
from studies.bench.contenders import OURS
from studies.bench.live_tables import LiveRows, curve_of, gap_closed, kinds_of, over_default, over_seeds, trials_to
from studies.bench.transferred import split_moves
from trials.emulate.network import FRAME_BYTES

USUAL_GAIN, ROOM = 1.2, 1.3
"""The speed-up to reach on half of the cells whose bound is at least `ROOM` times the best baseline's speed."""
BIG_GAIN, OVER_DEFAULT, GAP_CLOSED = 1.5, 1.5, 0.7
"""The speed-up to reach in one cell, the speed-up over the frameworks' default, and the share of the gap to the bound.
"""
ANY_ROOM = 1.1
"""Cells whose bound on the speed-up is below this value are controls."""
TRIALS, OF_RIVALS = 20, 2 / 3
"""Most trials to the best, and the most trials relative to the best rival."""

Cells = Mapping[str, LiveRows]
Line = tuple[str, bool | None, str]
"""A target, whether it is reached (None if unknown), and the measured value."""


def live_targets_table(rows: LiveRows, ours: str = OURS) -> TextTable:
    """Return the table of guided search's targets on live clusters."""
    plain = [row for row in rows if _is_plain(row)]
    cells = _by_cell([row for row in plain if row["searcher"] == ours])
    answer = {True: "yes", False: "no", None: NOTHING}
    about = (
        "Geometric means over seeds of lossless, re-measured strategies; if the interval reaches down to 1, no gain is "
        "counted. The bound is the speed-up at the lower bound of exact strategies' step time. Controls are not among "
        "the cells. If a cell was searched with several requests, the request with the most seeds counts; requests on "
        "the present version of the emulated network take precedence. Trials are counted until one was within "
        f"{WITHIN - 1:.0%} of the search's best trial or, compared with rivals, of the best trial of all searchers in "
        "that cell and seed."
    )
    lines = [(name, answer[met], measured) for name, met, measured in _lines(cells, plain, ours)] if cells else []
    return TextTable("live_targets", "Targets, live", about, ("target", "reached", "measured"), lines)


def _lines(cells: Cells, plain: LiveRows, ours: str) -> Iterator[Line]:
    gains = {cell: _sure_gain(searches) for cell, searches in cells.items()}
    roomy = [cell for cell, searches in cells.items() if _room(searches) >= ROOM]
    usual = sum(gains[cell] >= USUAL_GAIN for cell in roomy)
    most = max(cells, key=lambda cell: (gains[cell], over_seeds(cells[cell]).value))
    doubt = "" if gains[most] > 1 else ", not beyond the noise"
    runs = [row for searches in cells.values() for row in searches]
    slower = sum(row["speedup_high"] < 1 for row in runs)
    yield (
        f"{USUAL_GAIN} x over the best baseline in at least half of the cells with a bound of {ROOM} x or more",
        2 * usual >= len(roomy) if roomy else None,
        f"{usual} of {len(roomy)}",
    )
    yield f"{BIG_GAIN} x in one", gains[most] >= BIG_GAIN, f"{over_seeds(cells[most]).value:.2f} x in {most}{doubt}"
    yield "never slower than it beyond the noise", not slower, f"{slower} of {len(runs)} runs"
    yield _over_defaults(cells)
    yield _gaps_closed(cells)
    trials = statistics.median(trials_to(curve, min(curve)) for curve in map(curve_of, runs))
    yield f"at most {TRIALS} trials to the best, at the median", trials <= TRIALS, f"{trials:g}"
    yield _compared_with_rivals(plain, ours)


def _over_defaults(cells: Cells) -> Line:
    values = [value for rows in cells.values() if math.isfinite(value := over_default(rows).value)]
    mean = statistics.geometric_mean(values) if values else math.nan
    target = f"{OVER_DEFAULT} x over the frameworks' default bucket size, geometric mean of cells"
    return target, mean >= OVER_DEFAULT if values else None, f"{mean:.2f} x (n = {len(values)})" if values else NOTHING


def _gaps_closed(cells: Cells) -> Line:
    roomy = [searches for searches in cells.values() if _room(searches) >= ANY_ROOM]
    shares = [share for searches in roomy if (share := gap_closed(searches)) is not None]
    target = f"{GAP_CLOSED:.0%} of the gap to the bound, median of cells with a bound of {ANY_ROOM} x or more"
    if not shares:
        return target, None, NOTHING
    return target, statistics.median(shares) >= GAP_CLOSED, f"{statistics.median(shares):.0%} (n = {len(shares)})"


def _compared_with_rivals(plain: LiveRows, ours: str) -> Line:
    """Compare the median trials of our searcher with those of the best rival, over cells and seeds searched alike."""
    alike: dict[tuple[Any, ...], dict[str, Sequence[float]]] = {}
    for row in plain:
        request = (row["cell"], row["seed"], row["budget"], row["packet_bytes"], row["more"])
        alike.setdefault(request, {})[row["searcher"]] = curve_of(row)
    trials: dict[str, list[tuple[float, float]]] = {}
    for curves in alike.values():
        best = min(map(min, curves.values()))
        for name in set(curves) - {ours} if ours in curves else ():
            trials.setdefault(name, []).append((trials_to(curves[ours], best), trials_to(curves[name], best)))
    target = f"at most {OF_RIVALS:.0%} of the trials of the best rival"
    if not trials:
        return target, None, NOTHING
    medians = {
        name: [statistics.median(column) for column in zip(*pairs, strict=True)] for name, pairs in trials.items()
    }
    reached = {name: sum(math.isfinite(rival) for _, rival in pairs) for name, pairs in trials.items()}
    best_rival = min(medians, key=lambda name: (medians[name][1], -reached[name]))
    mine, rival = medians[best_rival]
    met = mine <= OF_RIVALS * rival if math.isfinite(mine) else False
    count = len(trials[best_rival])
    never = f"{best_rival}, which never came close in {count - reached[best_rival]} of {count}"
    return (
        target,
        met,
        f"{mine:g} beside {f'{rival:g} of {best_rival} (n = {count})' if math.isfinite(rival) else never}",
    )


def _room(rows: LiveRows) -> float:
    """Return the speed-up over the best baseline that the bound allows, median over seeds; infinite without a bound."""
    bounded = [(row["baseline_seconds"], row["bound_seconds"]) for row in rows]
    return statistics.median(baseline / bound if bound > 0 else math.inf for baseline, bound in bounded)


def _is_plain(row: Mapping[str, Any]) -> bool:
    """Return whether a search is of the plain kind.

    A plain search is no control, has all rules, no moved strategy or simulator and no tuned all-reduce, and returned a
    strategy that leaves the training statistics unchanged.
    """
    special = row["control"] or row["without_rule"] or row["changes_statistics"] or split_moves(row["more"])[0]
    return not (special or "--tuned-all-reduce" in row["more"])


def _by_cell(rows: LiveRows) -> dict[str, LiveRows]:
    """Return the searches of each cell, of the kind with the most searches; kinds on the present network take
    precedence."""
    kinds = kinds_of(rows)
    rising = sorted(kinds, key=lambda kind: (kind.packet_bytes == FRAME_BYTES, len(kinds[kind])))
    return {kind.cell: kinds[kind] for kind in rising}


def _sure_gain(rows: LiveRows) -> float:
    """Return the speed-up over seeds; 1 if its interval reaches down to 1."""
    speedup = over_seeds(rows)
    return speedup.value if speedup.low > 1 else 1.0

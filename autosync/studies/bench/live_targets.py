"""The targets of guided search on live clusters, and its results."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autosync.stats.tables import NOTHING, Table
from autosync.studies.bench.columns import WITHIN
from autosync.studies.bench.contenders import OURS
from autosync.studies.bench.live_tables import Rows, curve_of, kinds_of, over_default, over_seeds, trials_to, way_of
from autosync.studies.bench.moved import moved_of
from trials.emulate.network import FRAME_BYTES

USUAL_GAIN, ROOM = 1.2, 1.3
"""The gain wanted of half of the cells with so much room: bounds of so many times the best baseline's speed."""
BIG_GAIN, OVER_DEFAULT, WAY = 1.5, 1.5, 0.7
ANY_ROOM = 1.1
"""Cells with less room are controls."""
TRIALS, OF_RIVALS = 20, 2 / 3

Cells = Mapping[str, Rows]
Line = tuple[str, bool | None, str]
"""A target, whether it is reached, None where nothing tells, and what was measured."""


def live_targets_table(rows: Rows, ours: str = OURS) -> Table:
    """The table of what guided search was built to reach on live clusters."""
    plain = [row for row in rows if _is_plain(row)]
    cells = _by_cell([row for row in plain if row["searcher"] == ours])
    answer = {True: "yes", False: "no", None: NOTHING}
    about = (
        "Geometric means over seeds of lossless strategies, re-measured; where the interval reaches to 1, no gain is "
        "counted. The bound is over what no exact strategy goes below. Controls are not among the cells; of a cell "
        "that was asked for in several ways, the one with the most seeds counts, of those on the emulated network as "
        f"it is now, if there are any. Trials are those until one was within {WITHIN - 1:.0%} of the search's best "
        "trial, or, beside rivals, of the best of all in that cell and seed."
    )
    lines = [(what, answer[met], found) for what, met, found in _lines(cells, plain, ours)] if cells else []
    return Table("live_targets", "Targets, live", about, ("target", "reached", "measured"), lines)


def _lines(cells: Cells, plain: Rows, ours: str) -> Iterator[Line]:
    gains = {cell: _sure_gain(each) for cell, each in cells.items()}
    roomy = [cell for cell, own in cells.items() if _room(own) >= ROOM]
    usual = sum(gains[cell] >= USUAL_GAIN for cell in roomy)
    most = max(cells, key=lambda cell: (gains[cell], over_seeds(cells[cell]).value))
    doubt = "" if gains[most] > 1 else ", not beyond the noise"
    runs = [row for own in cells.values() for row in own]
    slower = sum(row["speedup_high"] < 1 for row in runs)
    yield (
        f"{USUAL_GAIN} x over the best baseline in at least half of the cells with a bound of {ROOM} x or more",
        2 * usual >= len(roomy) if roomy else None,
        f"{usual} of {len(roomy)}",
    )
    yield f"{BIG_GAIN} x in one", gains[most] >= BIG_GAIN, f"{over_seeds(cells[most]).value:.2f} x in {most}{doubt}"
    yield "never slower than it beyond the noise", not slower, f"{slower} of {len(runs)} runs"
    yield _over_defaults(cells)
    yield _ways(cells)
    trials = statistics.median(trials_to(curve, min(curve)) for curve in map(curve_of, runs))
    yield f"at most {TRIALS} trials to the best, at the median", trials <= TRIALS, f"{trials:g}"
    yield _beside_rivals(plain, ours)


def _over_defaults(cells: Cells) -> Line:
    values = [value for rows in cells.values() if math.isfinite(value := over_default(rows).value)]
    mean = statistics.geometric_mean(values) if values else math.nan
    what = f"{OVER_DEFAULT} x over the frameworks' default bucket size, geometric mean of cells"
    return what, mean >= OVER_DEFAULT if values else None, f"{mean:.2f} x (n = {len(values)})" if values else NOTHING


def _ways(cells: Cells) -> Line:
    found = [way for own in cells.values() if _room(own) >= ANY_ROOM and (way := way_of(own)) is not None]
    what = f"{WAY:.0%} of the way to the bound, median of cells with a bound of {ANY_ROOM} x or more"
    if not found:
        return what, None, NOTHING
    return what, statistics.median(found) >= WAY, f"{statistics.median(found):.0%} (n = {len(found)})"


def _beside_rivals(plain: Rows, ours: str) -> Line:
    """The median over cells and seeds that all searched alike, of ours and of the best rival's."""
    alike: dict[tuple[Any, ...], dict[str, Sequence[float]]] = {}
    for row in plain:
        asked = (row["cell"], row["seed"], row["budget"], row["packet_bytes"], row["more"])
        alike.setdefault(asked, {})[row["searcher"]] = curve_of(row)
    trials: dict[str, list[tuple[float, float]]] = {}
    for curves in alike.values():
        best = min(map(min, curves.values()))
        for name in set(curves) - {ours} if ours in curves else ():
            trials.setdefault(name, []).append((trials_to(curves[ours], best), trials_to(curves[name], best)))
    what = f"at most {OF_RIVALS:.0%} of the trials of the best rival"
    if not trials:
        return what, None, NOTHING
    medians = {name: [statistics.median(each) for each in zip(*own, strict=True)] for name, own in trials.items()}
    reached = {name: sum(math.isfinite(rival) for _, rival in own) for name, own in trials.items()}
    best_rival = min(medians, key=lambda name: (medians[name][1], -reached[name]))
    own, rival = medians[best_rival]
    met = own <= OF_RIVALS * rival if math.isfinite(own) else False
    count = len(trials[best_rival])
    never = f"{best_rival}, which never was in {count - reached[best_rival]} of {count}"
    return what, met, f"{own:g} beside {f'{rival:g} of {best_rival} (n = {count})' if math.isfinite(rival) else never}"


def _room(rows: Rows) -> float:
    """How many times the best baseline's speed the bound allows, median over seeds; infinite without a bound."""
    bounded = [(row["baseline_seconds"], row["bound_seconds"]) for row in rows]
    return statistics.median(baseline / bound if bound > 0 else math.inf for baseline, bound in bounded)


def _is_plain(row: Mapping[str, Any]) -> bool:
    """Whether it searched a cell as it is, with all rules, from nothing, beside the baselines alone, and found what
    leaves training as it is."""
    other = row["control"] or row["without_rule"] or row["changes_statistics"] or moved_of(row["more"])[0]
    return not (other or "--tuned-all-reduce" in row["more"])


def _by_cell(rows: Rows) -> dict[str, Rows]:
    """Searches of each cell, of the kind that has most of them; of kinds on today's network, where there are any."""
    kinds = kinds_of(rows)
    rising = sorted(kinds, key=lambda kind: (kind.packet_bytes == FRAME_BYTES, len(kinds[kind])))
    return {kind.cell: kinds[kind] for kind in rising}


def _sure_gain(rows: Rows) -> float:
    """The speed-up over seeds; 1 where its interval reaches down to 1."""
    speedup = over_seeds(rows)
    return speedup.value if speedup.low > 1 else 1.0

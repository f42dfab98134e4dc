"""Tables of live searches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autosync.bench.intervals import Estimate, geometric_mean
from autosync.bench.words import in_bound, in_times
from autosync.simulator.evaluation.tables import Table

__all__ = ["controls_table", "live_table", "live_targets_table"]

Rows = Sequence[Mapping[str, Any]]

USUAL_GAIN, BIG_GAIN = 1.2, 1.6


def live_table(rows: Rows) -> Table:
    """Best found against best baseline, cell by cell."""
    return Table(
        "live",
        "Live searches",
        "Each is a run of autosync.tune on an emulated cluster; *speed-up*: step time of the best baseline over "
        "that of the best found, re-measured in turns at the end; geometric mean over seeds with Student's "
        "interval. *guess*: what was returned over the middle one of the hand-written strategies, geometric mean over "
        "seeds. *bound*: over what no exact strategy goes below, by links and cores alone "
        "(`autosync/cost/bound.py`). *each*: the seeds' own, with the interval of their rounds. *beyond noise*: runs "
        "whose own interval lies above 1.",
        ("cell", "searcher", "speed-up", "guess", "bound", "each", "beyond noise", "trials", "found after", "minutes"),
        [
            (
                cell,
                searcher,
                in_times(_over_seeds(own)),
                f"{geometric_mean([row['median_baseline_seconds'] / row['winner_seconds'] for row in own]).value:.2f}",
                in_bound(min(row["baseline_seconds"] for row in own), max(row["bound_seconds"] for row in own)),
                "; ".join(in_times(_own(row)) for row in own),
                f"{sum(row['beyond_noise'] for row in own)} of {len(own)}",
                _range(row["trials"] for row in own),
                _range(row["found_after_trials"] for row in own),
                _range(round(row["wall_seconds"] / 60) for row in own),
            )
            for (cell, searcher), own in _grouped(row for row in rows if not row["control"]).items()
        ],
    )


def controls_table(rows: Rows) -> Table:
    """Cells where no gain is possible, and whether the searches say so."""
    return Table(
        "controls",
        "Negative controls",
        "Cells where there is nothing to gain. *as expected*: the search says that nothing is faster than the best "
        "baseline beyond the noise.",
        ("cell", "searcher", "speed-up", "each", "as expected"),
        [
            (
                cell,
                searcher,
                in_times(_over_seeds(own)),
                "; ".join(in_times(_own(row)) for row in own),
                f"{sum(not row['beyond_noise'] for row in own)} of {len(own)}",
            )
            for (cell, searcher), own in _grouped(row for row in rows if row["control"]).items()
        ],
    )


def live_targets_table(rows: Rows, ours: str = "guided") -> Table:
    """What guided search was built to reach on live clusters."""
    own = [row for row in rows if not row["control"] and _name(row) == ours and not row["changes_statistics"]]
    gains = {cell: _sure_gain(each) for (cell, _), each in _grouped(own).items()}
    table: list[tuple[str, str, str]] = []
    if gains:
        usual = sum(gain >= USUAL_GAIN for gain in gains.values())
        slower = [row for row in own if row["speedup_high"] < 1]
        table = [
            (
                f"{USUAL_GAIN} x over the best baseline in at least half of the cells",
                "yes" if 2 * usual >= len(gains) else "no",
                f"{usual} of {len(gains)}",
            ),
            (
                f"{BIG_GAIN} x in one",
                "yes" if max(gains.values()) >= BIG_GAIN else "no",
                f"{max(gains.values()):.2f} x in {max(gains, key=gains.__getitem__)}",
            ),
            ("never slower than it beyond the noise", "no" if slower else "yes", f"{len(slower)} of {len(own)} runs"),
        ]
    about = (
        "Geometric means over seeds of lossless strategies, re-measured; where an interval of a seed reaches to 1, "
        "no gain is counted. Controls are not among the cells."
    )
    return Table("live_targets", "Targets, live", about, ("target", "reached", "measured"), table)


def _grouped(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["cell"], _name(row), row["seed"])):
        groups.setdefault((row["cell"], _name(row)), []).append(row)
    return groups


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['searcher']} without {row['without_rule']}" if row["without_rule"] else str(row["searcher"])


def _over_seeds(rows: Rows) -> Estimate:
    return geometric_mean([row["speedup"] for row in rows])


def _sure_gain(rows: Rows) -> float:
    """The speed-up over seeds; 1 where not every seed's is beyond the noise."""
    return _over_seeds(rows).value if all(row["beyond_noise"] for row in rows) else 1.0


def _own(row: Mapping[str, Any]) -> Estimate:
    return Estimate(row["speedup"], row["speedup_low"], row["speedup_high"])


def _range(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return f"{found[0]}" if len(found) == 1 else f"{found[0]}-{found[-1]}"

"""Tables of live searches."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from autosync.baselines import FRAMEWORK_DEFAULTS
from autosync.cost import StepBound
from autosync.stats.estimate import Estimate, geometric_mean, median_of, share_of
from autosync.stats.tables import NOTHING, TextTable, in_percent
from studies.bench.columns import WITHIN
from studies.bench.words import in_bound, in_times
from trials.emulate.network import FRAME_BYTES

LiveRows = Sequence[Mapping[str, Any]]


class SearchKind(NamedTuple):
    """The properties that searches share if they differ only by their seed."""

    cell: str
    searcher: str
    without_rule: str
    packet_bytes: int
    budget: int
    more: str
    taught_on: str

    @property
    def name(self) -> str:
        return f"{self.searcher} without {self.without_rule}" if self.without_rule else self.searcher

    @property
    def request(self) -> str:
        """The budget and further options; also the packet size if it differs from that of the present emulation."""
        network = "" if self.packet_bytes == FRAME_BYTES else f", packets of {self.packet_bytes} bytes"
        return f"{self.budget} {self.more}".strip() + network


def kinds_of(rows: Iterable[Mapping[str, Any]]) -> dict[SearchKind, list[Mapping[str, Any]]]:
    """Return the rows by kind, in order of their seeds."""
    kinds: dict[SearchKind, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (*_kind(row), row["seed"])):
        kinds.setdefault(_kind(row), []).append(row)
    return kinds


def over_seeds(rows: LiveRows) -> Estimate:
    """Return the geometric mean of speed-ups with Student's interval; for one search, with the interval of its
    rounds."""
    return geometric_mean([row["speedup"] for row in rows]) if len(rows) > 1 else _speedup_of(rows[0])


def curve_of(row: Mapping[str, Any]) -> list[float]:
    """Return each trial's step time over that of the best baseline, the geometric mean of its search and finals
    times."""
    seconds = [math.inf if value is None else value for value in row["measured_seconds"]]
    fastest = min(value for value, purpose in zip(seconds, row["purposes"], strict=True) if purpose == "baseline")
    baseline = math.sqrt(fastest * row["baseline_seconds"])
    return [value / baseline for value in seconds]


def trials_to(curve: Sequence[float], best: float) -> float:
    """Return the number of trials until one was within `WITHIN` of `best`; infinite if none was."""
    return next((number for number, ratio in enumerate(curve, 1) if ratio <= WITHIN * best), math.inf)


def live_table(rows: LiveRows) -> TextTable:
    """Return the table that compares the best strategy found with the best baseline, cell by cell."""
    return TextTable(
        "live",
        "Live searches",
        "Each search is a run of autosync.tune on an emulated cluster; *asked*: trials and further options. "
        "*speed-up*: step time of the best baseline divided by that of the best strategy found, re-measured in turns "
        "at the end; geometric mean over seeds with Student's interval, or a single seed with the interval of its "
        "rounds. *over default*: the same ratio for the faster of the frameworks' default bucket sizes (PyTorch's 25 "
        "MB, Horovod's 64 MB) on autosync's own ring. *guess*: the same ratio for the median baseline, geometric mean "
        "over seeds. *bound*: the same ratio for the lower bound of exact strategies by links and cores alone "
        "(`autosync/cost/bound.py`), least over seeds. *way*: the share of the gap between the best baseline's step "
        "and that bound which the search closes, median over seeds. *each*: the speed-up of each seed, with the "
        "interval of its rounds. *beyond noise*: runs whose interval lies above 1. *hits*: share of searched trials "
        "faster than the best baseline by 2 standard errors, with the baseline's time from the search and the finals, "
        "and with Wilson's interval.",
        (
            "cell",
            "searcher",
            "asked",
            "speed-up",
            "over default",
            "guess",
            "bound",
            "way",
            "each",
            "beyond noise",
            "hits",
            "trials",
            "found after",
            "minutes",
        ),
        [
            (
                kind.cell,
                kind.name,
                kind.request,
                in_times(over_seeds(searches)),
                in_times(over_default(searches)),
                _mean([row["median_baseline_seconds"] / row["winner_seconds"] for row in searches]),
                in_bound(
                    min(row["baseline_seconds"] for row in searches), max(row["bound_seconds"] for row in searches)
                ),
                NOTHING if (share := gap_closed(searches)) is None else f"{share:.0%}",
                "; ".join(in_times(_speedup_of(row)) for row in searches),
                f"{sum(row['beyond_noise'] for row in searches)} of {len(searches)}",
                in_percent(_hits(searches)),
                _range(row["trials"] for row in searches),
                _range(row["found_after_trials"] for row in searches),
                _range(round(row["wall_seconds"] / 60) for row in searches),
            )
            for kind, searches in kinds_of(row for row in rows if not row["control"]).items()
        ],
    )


def rules_table(rows: LiveRows) -> TextTable:
    """Return the table of the rules of the space: searches with all rules compared with searches without one."""
    kinds = kinds_of(row for row in rows if not row["control"])
    pairs = [
        (kind, kinds[kind._replace(without_rule="")], less)
        for kind, less in kinds.items()
        if kind.without_rule and kind._replace(without_rule="") in kinds
    ]
    return TextTable(
        "rules",
        "What knowledge is worth",
        "The same searches with all rules of the space and without one rule (`autosync/space/priors.py`). *hits*: "
        "share of searched trials faster than the best baseline by 2 standard errors, with Wilson's interval. "
        "*middle*: median step time of the searched strategies divided by the best baseline's, over all seeds; failed "
        "strategies count as slowest. The baseline's time is the geometric mean of its trial and the finals, because "
        "the machine drifts. *speed-up*: re-measured, as above.",
        (
            "cell",
            "rule",
            "asked",
            "seeds with, without",
            "hits with",
            "hits without",
            "middle with",
            "middle without",
            "speed-up with",
            "speed-up without",
        ),
        [
            (
                kind.cell,
                kind.without_rule,
                kind.request,
                f"{len(whole)}, {len(less)}",
                *(in_percent(_hits(searches)) for searches in (whole, less)),
                *(in_times(_middle(searches)) for searches in (whole, less)),
                *(in_times(over_seeds(searches)) for searches in (whole, less)),
            )
            for kind, whole, less in pairs
        ],
    )


def controls_table(rows: LiveRows) -> TextTable:
    """Return the table of the controls, the cells without a possible gain, and of whether the searches find none."""
    return TextTable(
        "controls",
        "Negative controls",
        "Cells where no gain is possible. *as expected*: the search reports that no strategy is faster than the best "
        "baseline beyond the noise.",
        ("cell", "searcher", "asked", "speed-up", "each", "hits", "as expected"),
        [
            (
                kind.cell,
                kind.name,
                kind.request,
                in_times(over_seeds(searches)),
                "; ".join(in_times(_speedup_of(row)) for row in searches),
                in_percent(_hits(searches)),
                f"{sum(not row['beyond_noise'] for row in searches)} of {len(searches)}",
            )
            for kind, searches in kinds_of(row for row in rows if row["control"]).items()
        ],
    )


def _kind(row: Mapping[str, Any]) -> SearchKind:
    return SearchKind(*(row[name] for name in SearchKind._fields))


def _hits(rows: LiveRows) -> Estimate:
    hits = [
        hit for row in rows for hit, purpose in zip(row["hits"], row["purposes"], strict=True) if purpose == "search"
    ]
    return share_of(sum(hits), len(hits))


def _middle(rows: LiveRows) -> Estimate:
    return median_of([speedup for row in rows for speedup in _over_baseline(row)] or [math.nan])


def _over_baseline(row: Mapping[str, Any]) -> list[float]:
    """Return the step time of each searched strategy divided by the best baseline's."""
    return [ratio for ratio, purpose in zip(curve_of(row), row["purposes"], strict=True) if purpose == "search"]


def over_default(rows: LiveRows) -> Estimate:
    """Return the speed-up over the frameworks' defaults, over seeds as in `over_seeds`.

    A search that returned a default has 1. The result is NaN if a search timed no default.
    """
    estimates = [_over_default_of(row) for row in rows]
    if len(estimates) == 1 or any(math.isnan(estimate.value) for estimate in estimates):
        return next((estimate for estimate in estimates if math.isnan(estimate.value)), estimates[0])
    return geometric_mean([estimate.value for estimate in estimates])


def _over_default_of(row: Mapping[str, Any]) -> Estimate:
    if row["over_default"] is not None:
        return Estimate(row["over_default"], row["over_default_low"], row["over_default_high"])
    same = 1.0 if row["winner_label"] in FRAMEWORK_DEFAULTS else math.nan
    return Estimate(same, same, same)


def gap_closed(rows: LiveRows) -> float | None:
    """Return the median share of the gap to the bound that was closed; None if there is no gap."""
    shares = [StepBound(row["bound_seconds"], "").gap_closed(row["baseline_seconds"], row["speedup"]) for row in rows]
    known = [share for share in shares if share is not None]
    return statistics.median(known) if known else None


def _mean(ratios: Sequence[float]) -> str:
    return in_times(geometric_mean(ratios)) if len(ratios) > 1 else f"{ratios[0]:.2f}"


def _speedup_of(row: Mapping[str, Any]) -> Estimate:
    return Estimate(row["speedup"], row["speedup_low"], row["speedup_high"])


def _range(values: Iterable[int]) -> str:
    ordered = sorted(set(values))
    return f"{ordered[0]}" if len(ordered) == 1 else f"{ordered[0]}-{ordered[-1]}"

"""Tables of live searches."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from autosync.baselines import FRAMEWORK_DEFAULTS
from autosync.cost import StepBound
from autosync.stats.estimate import Estimate, geometric_mean, median_of, share_of
from autosync.stats.tables import NOTHING, Table, in_percent
from autosync.studies.bench.columns import WITHIN
from autosync.studies.bench.words import in_bound, in_times
from trials.emulate.network import FRAME_BYTES

Rows = Sequence[Mapping[str, Any]]


class Kind(NamedTuple):
    """What searches that differ by their seed alone have in common."""

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
    def asked(self) -> str:
        """The budget and further options; for an emulation that is no longer made, also what its network was like."""
        other = "" if self.packet_bytes == FRAME_BYTES else f", packets of {self.packet_bytes} bytes"
        return f"{self.budget} {self.more}".strip() + other


def kinds_of(rows: Iterable[Mapping[str, Any]]) -> dict[Kind, list[Mapping[str, Any]]]:
    """Rows by their request, in order of their seeds."""
    kinds: dict[Kind, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (*_kind(row), row["seed"])):
        kinds.setdefault(_kind(row), []).append(row)
    return kinds


def over_seeds(rows: Rows) -> Estimate:
    """The geometric mean of speed-ups with Student's interval; for a single one with the interval of its rounds."""
    return geometric_mean([row["speedup"] for row in rows]) if len(rows) > 1 else _own(rows[0])


def curve_of(row: Mapping[str, Any]) -> list[float]:
    """Each trial's step time over the best baseline's, as that was timed in the search and in the finals."""
    seconds = [math.inf if each is None else each for each in row["measured_seconds"]]
    fastest = min(each for each, purpose in zip(seconds, row["purposes"], strict=True) if purpose == "baseline")
    baseline = math.sqrt(fastest * row["baseline_seconds"])
    return [each / baseline for each in seconds]


def trials_to(curve: Sequence[float], best: float) -> float:
    """After how many trials one was within `WITHIN` of the `best`; infinite when none was."""
    return next((number for number, each in enumerate(curve, 1) if each <= WITHIN * best), math.inf)


def live_table(rows: Rows) -> Table:
    """The table of the best found against the best baseline, cell by cell."""
    return Table(
        "live",
        "Live searches",
        "Each is a run of autosync.tune on an emulated cluster; *asked*: trials, and what else it was given. "
        "*speed-up*: step time of the best baseline over that of the best found, re-measured in turns at the end; "
        "geometric mean over seeds with Student's interval, or of a single seed with that of its rounds. *over "
        "default*: the same over the faster of the frameworks' default bucket sizes (PyTorch's 25 MB, "
        "Horovod's 64 MB) on autosync's own ring. *guess*: what "
        "was returned over the middle one of the baselines, geometric mean over seeds. *bound*: over what "
        "no exact strategy goes below, by links and cores alone (`autosync/cost/bound.py`), least over seeds. *way*: "
        "the share gone of the way from the best baseline's step to that bound, the median over seeds. "
        "*each*: the seeds' own, with the interval of their rounds. *beyond noise*: runs whose own interval lies above "
        "1. *hits*: share of searched trials faster than the best baseline by 2 standard errors, as that was timed in "
        "the search and in the finals, with Wilson's interval.",
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
                kind.asked,
                in_times(over_seeds(own)),
                in_times(over_default(own)),
                _mean([row["median_baseline_seconds"] / row["winner_seconds"] for row in own]),
                in_bound(min(row["baseline_seconds"] for row in own), max(row["bound_seconds"] for row in own)),
                NOTHING if (way := way_of(own)) is None else f"{way:.0%}",
                "; ".join(in_times(_own(row)) for row in own),
                f"{sum(row['beyond_noise'] for row in own)} of {len(own)}",
                in_percent(_hits(own)),
                _range(row["trials"] for row in own),
                _range(row["found_after_trials"] for row in own),
                _range(round(row["wall_seconds"] / 60) for row in own),
            )
            for kind, own in kinds_of(row for row in rows if not row["control"]).items()
        ],
    )


def rules_table(rows: Rows) -> Table:
    """The table of what each rule of the space is worth: searches with all rules, beside those without one."""
    kinds = kinds_of(row for row in rows if not row["control"])
    pairs = [
        (kind, kinds[kind._replace(without_rule="")], own)
        for kind, own in kinds.items()
        if kind.without_rule and kind._replace(without_rule="") in kinds
    ]
    return Table(
        "rules",
        "What knowledge is worth",
        "The same searches with all rules of the space, and without one (`autosync/space/knowledge.py`). *hits*: share "
        "of searched trials faster than the best baseline by 2 standard errors, with Wilson's interval. *middle*: "
        "median step time of the strategies searched, over the best baseline's (the geometric mean of what its trial "
        "and the finals say: the machine drifts), all seeds together; failed ones count as slowest. *speed-up*: "
        "re-measured, as above.",
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
                kind.asked,
                f"{len(whole)}, {len(less)}",
                *(in_percent(_hits(each)) for each in (whole, less)),
                *(in_times(_middle(each)) for each in (whole, less)),
                *(in_times(over_seeds(each)) for each in (whole, less)),
            )
            for kind, whole, less in pairs
        ],
    )


def controls_table(rows: Rows) -> Table:
    """The table of cells where no gain is possible, and of whether the searches say so."""
    return Table(
        "controls",
        "Negative controls",
        "Cells where there is nothing to gain. *as expected*: the search says that nothing is faster than the best "
        "baseline beyond the noise.",
        ("cell", "searcher", "asked", "speed-up", "each", "hits", "as expected"),
        [
            (
                kind.cell,
                kind.name,
                kind.asked,
                in_times(over_seeds(own)),
                "; ".join(in_times(_own(row)) for row in own),
                in_percent(_hits(own)),
                f"{sum(not row['beyond_noise'] for row in own)} of {len(own)}",
            )
            for kind, own in kinds_of(row for row in rows if row["control"]).items()
        ],
    )


def _kind(row: Mapping[str, Any]) -> Kind:
    return Kind(*(row[name] for name in Kind._fields))


def _hits(rows: Rows) -> Estimate:
    hits = [
        hit for row in rows for hit, purpose in zip(row["hits"], row["purposes"], strict=True) if purpose == "search"
    ]
    return share_of(sum(hits), len(hits))


def _middle(rows: Rows) -> Estimate:
    return median_of([speedup for row in rows for speedup in _over_baseline(row)] or [math.nan])


def _over_baseline(row: Mapping[str, Any]) -> list[float]:
    """The step time of each strategy searched over the best baseline's."""
    return [each for each, purpose in zip(curve_of(row), row["purposes"], strict=True) if purpose == "search"]


def over_default(rows: Rows) -> Estimate:
    """Over seeds as `over_seeds`; 1 of a search that returned a default; of NaN where one timed none of them."""
    found = [_own_over_default(row) for row in rows]
    if len(found) == 1 or any(math.isnan(each.value) for each in found):
        return next((each for each in found if math.isnan(each.value)), found[0])
    return geometric_mean([each.value for each in found])


def _own_over_default(row: Mapping[str, Any]) -> Estimate:
    if row["over_default"] is not None:
        return Estimate(row["over_default"], row["over_default_low"], row["over_default_high"])
    same = 1.0 if row["winner_label"] in FRAMEWORK_DEFAULTS else math.nan
    return Estimate(same, same, same)


def way_of(rows: Rows) -> float | None:
    """The median share of the way to the bound; None where there is no way."""
    shares = [StepBound(row["bound_seconds"], "").share_gone(row["baseline_seconds"], row["speedup"]) for row in rows]
    known = [share for share in shares if share is not None]
    return statistics.median(known) if known else None


def _mean(ratios: Sequence[float]) -> str:
    return in_times(geometric_mean(ratios)) if len(ratios) > 1 else f"{ratios[0]:.2f}"


def _own(row: Mapping[str, Any]) -> Estimate:
    return Estimate(row["speedup"], row["speedup_low"], row["speedup_high"])


def _range(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return f"{found[0]}" if len(found) == 1 else f"{found[0]}-{found[-1]}"

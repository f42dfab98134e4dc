"""The targets of the proof, their results, and the most that the bounds allow."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from autosync.stats.cells import CellName
from autosync.stats.tables import NOTHING, TextTable
from studies.proof.finals import BASELINE_ROLE, DEFAULT_ROLE
from studies.proof.methods import ALL_REDUCE
from studies.proof.outcomes import JobOutcome, median_over_seeds, over_seeds

OVER_DEFAULT = 1.5
USUAL_GAIN, ROOM, BIG_GAIN = 1.2, 1.3, 1.5
OVER_TUNED, TUNED_ROOM = 1.1, 1.2
GAP_CLOSED = 0.7

Cells = Mapping[CellName, Sequence[JobOutcome]]
Line = tuple[str, bool | None, str, str]
"""A target, whether it is reached (None without a cell that counts), the measured value, and the most by the bounds."""


def targets_table(cells: Cells) -> TextTable:
    """Return the table of targets. A target that the bounds forbid is marked as such."""
    answer = {True: "yes", False: "no", None: NOTHING}
    return TextTable(
        "targets",
        "Targets",
        "Over the cells that have run, each with the geometric mean over its seeds. *by the bounds*: the value if "
        "every strategy were at its lower bound; if even that misses the target, the bounds forbid it.",
        ("target", "reached", "measured", "by the bounds"),
        [(name, answer[reached], measured, most) for name, reached, measured, most in _lines(cells)],
    )


def _lines(cells: Cells) -> Iterator[Line]:
    yield _geometric(
        f"over DDP's default, {OVER_DEFAULT} x geometric mean", OVER_DEFAULT, cells, (DEFAULT_ROLE,), list(cells)
    )
    gains = {cell: over_seeds(jobs, (BASELINE_ROLE,)) for cell, jobs in cells.items()}
    rooms = {cell: _room(jobs, BASELINE_ROLE) for cell, jobs in cells.items()}
    roomy = [cell for cell in cells if rooms[cell] >= ROOM]
    usual = sum(gains[cell].value >= USUAL_GAIN for cell in roomy)
    yield (
        f"over the best baseline, {USUAL_GAIN} x in half of the cells whose bound allows {ROOM}",
        2 * usual >= len(roomy) if roomy else None,
        f"{usual} of {len(roomy)}",
        _most_in_words(len(roomy) > 0, f"{len(roomy)} of {len(roomy)}"),
    )
    known = [cell for cell in cells if math.isfinite(gains[cell].value)]
    if known:
        best = max(known, key=lambda cell: gains[cell].value)
        widest = max(known, key=lambda cell: rooms[cell])
        yield (
            f"over the best baseline, {BIG_GAIN} x in one cell",
            gains[best].value >= BIG_GAIN,
            f"{gains[best].value:.2f} in {best}",
            _most_in_words(rooms[widest] >= BIG_GAIN, f"{rooms[widest]:.2f} in {widest}"),
        )
    yield _geometric(
        f"over the all-reduce by hand, {OVER_TUNED:.2f} x geometric mean where the bound allows {TUNED_ROOM}",
        OVER_TUNED,
        cells,
        (ALL_REDUCE,),
        [cell for cell, jobs in cells.items() if _room(jobs, ALL_REDUCE) >= TUNED_ROOM],
    )
    runs = [job for jobs in cells.values() for job in jobs]
    slower = [job for job in runs if job.speedup(BASELINE_ROLE).high < 1]
    names = ", ".join(str(job.cell) for job in slower)
    yield (
        "never slower than the best baseline beyond the noise",
        not slower,
        f"{len(slower)} of {len(runs)} jobs{f': {names}' if names else ''}",
        "0",
    )
    shares = [
        share
        for jobs in cells.values()
        if jobs[0].is_limited_by_links and not math.isnan(share := median_over_seeds(job.gap_closed for job in jobs))
    ]
    yield (
        f"{GAP_CLOSED:.0%} of the gap closed, median of cells that links limit",
        statistics.median(shares) >= GAP_CLOSED if shares else None,
        f"{statistics.median(shares):.0%} (n = {len(shares)})" if shares else NOTHING,
        "100%",
    )


def _geometric(target: str, wanted: float, cells: Cells, roles: tuple[str, ...], counted: Sequence[CellName]) -> Line:
    values = [value for cell in counted if math.isfinite(value := over_seeds(cells[cell], roles).value)]
    rooms = [room for cell in counted if math.isfinite(room := _room(cells[cell], *roles))]
    if not values:
        return target, None, NOTHING, NOTHING
    mean, most = statistics.geometric_mean(values), statistics.geometric_mean(rooms)
    return target, mean >= wanted, f"{mean:.2f} (n = {len(values)})", _most_in_words(most >= wanted, f"{most:.2f}")


def _most_in_words(is_allowed: bool, value: str) -> str:
    return value if is_allowed else f"{value}: forbidden"


def _room(jobs: Sequence[JobOutcome], *roles: str) -> float:
    return median_over_seeds(job.room(*roles) for job in jobs)

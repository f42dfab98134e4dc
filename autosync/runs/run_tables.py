"""The tables of runs, of a search's contenders, and of a race's candidates."""

from collections.abc import Mapping, Sequence
from typing import Any

from autosync.runs.contenders import Contender, ratio_of
from autosync.runs.listing import RunSummary
from autosync.runs.tables import FittedTable
from autosync.words.quantities import duration, milliseconds
from autosync.words.strategy import marked


def contenders_table(rows: Sequence[Contender], winner: str | None, baseline: str | None) -> FittedTable:
    """A table with median step, its 95 % interval and the speed-up over the best baseline; the digest `winner` is
    marked.

    `baseline` is the digest of the verdict's baseline; None, without a verdict, means the fastest. The speed-up is that
    of the verdict, paired over the rounds of the finals. A tilde marks a ratio of medians, for strategies that were
    timed at another moment than the baseline.
    """
    table = FittedTable()
    table.texts("strategy")
    table.words("")
    table.numbers("median", "95 % interval", "speed-up")
    table.words("steps")
    table.optional("steps", "95 % interval")
    yardstick = _yardstick(rows, baseline)
    for row in rows:
        cells = (
            f"{'> ' if row.digest == winner else '  '}{marked(row.label, row.changes_statistics)}",
            row.digest[:8],
            milliseconds(row.median_seconds, row.time),
            f"{row.interval[0] * 1e3:.1f} - {row.interval[1] * 1e3:.1f}" if row.interval else "",
            _speedup(row, yardstick),
            _remark(row),
        )
        table.row(cells, style="bold" if row.digest == winner else None)
    return table


def _speedup(row: Contender, yardstick: Contender | None) -> str:
    ratio = ratio_of(row, yardstick) if yardstick else None
    return f"{'' if ratio.is_paired else '~ '}{ratio.times:.2f} x" if ratio else ""


def _yardstick(rows: Sequence[Contender], baseline: str | None) -> Contender | None:
    """The contender `baseline`, or the fastest baseline; re-measured baselines come first."""
    measured = [row for row in rows if row.purpose == "baseline" and row.median_seconds]
    measured = [row for row in measured if row.digest == baseline] or measured
    final = [row for row in measured if row.remeasured] or measured
    return min(final, key=lambda row: row.median_seconds or float("inf"), default=None)


def _remark(row: Contender) -> str:
    if row.remeasured:
        return f"{row.steps} in {len(row.turns)} turns" if row.turns else f"{row.steps}"
    return {"ok": f"{row.steps}", "stopped": f"stopped at {row.steps}"}.get(row.outcome, row.outcome)


def runs_table(rows: Sequence[RunSummary]) -> FittedTable:
    """A table with one line per run, the latest first."""
    table = FittedTable()
    table.texts("run", "model")
    table.numbers("nodes", "trials", "took", "best step", "speed-up", "95 % interval")
    table.words("kind", "state")
    table.optional("95 % interval", "nodes", "took", "trials", "kind", "model")
    for row in rows:
        interval = row.speedup_interval
        cells = (
            row.title,
            row.model,
            "-" if row.nodes is None else str(row.nodes),
            "-" if row.trials is None else str(row.trials),
            "-" if row.seconds is None else duration(row.seconds),
            milliseconds(row.best_seconds, row.time),
            "-" if row.speedup is None else f"{row.speedup:.2f} x",
            f"{interval[0]:.2f} - {interval[1]:.2f}" if interval else "",
            row.kind,
            row.state,
        )
        table.row(cells)
    return table


def race_table(result: Mapping[str, Any]) -> FittedTable:
    """A table with one line per candidate of a race, the fastest first; the winner is marked."""
    table = FittedTable()
    table.texts("candidate")
    mark = "" if result["time"] == "real" else f" ({result['time']})"
    table.numbers("reached", f"seconds{mark}", "steps", "ms a step", "over plain", "95 % interval")
    table.optional("steps", "95 % interval", "ms a step")
    for place in result["places"]:
        won, over = place["name"] == result["winner"], place["times_as_fast_as_plain"]
        sure = over["low"] is not None and over["high"] is not None
        cells = (
            f"{'> ' if won else '  '}{place['name']}",
            f"{place['reached']} of {place['seeds']}",
            _figure(place["seconds"], 2),
            _figure(place["steps"], 0),
            "-" if place["step_seconds"] is None else _figure(place["step_seconds"] * 1e3, 1),
            "-" if over["value"] is None else f"{over['value']:.2f} x",
            f"{over['low']:.2f} - {over['high']:.2f}" if sure else "",
        )
        table.row(cells, style="bold" if won else None)
    return table


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"

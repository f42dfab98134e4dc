"""Runs `autosync report`: writes the report of a search or a race again, or a page that compares several searches."""

from pathlib import Path

from autosync.errors import AutosyncError
from autosync.report.comparison import Comparison, standings_of, write_comparison
from autosync.report.numbers import NOTHING, ratio
from autosync.report.page import write_report
from autosync.report.race import write_race_report
from autosync.runs import read_run, run_called
from autosync.runs.listing import RACE, directory_called, kind_of
from autosync.runs.race_folder import RaceFolder
from autosync.runs.tables import FittedTable
from autosync.spec.address import Place
from autosync.terminal import Terminal, say
from autosync.words.quantities import duration, milliseconds

COMPARISON = Path("comparison.html")
"""The default file of a comparison."""


def report(runs: tuple[str, ...], data: Place | None, out: Path | None) -> None:
    """Write the report if `runs` has one run, else a page that compares the runs. `out` is None for the default file.

    Raises `AutosyncError`.
    """
    if len(runs) == 1 and kind_of(directory := directory_called(runs[0])) == RACE:
        if out is not None:
            raise AutosyncError("--out is for reports of searches; a race's report is in its folder.")
        say(f"Report: {write_race_report(RaceFolder(directory))}")
        return
    searches = [read_run(run_called(run), data) for run in runs]
    for run in searches:
        if not run.records and run.kept.elsewhere:
            say(f"{run.directory}: {run.kept.missing('--data')}")
        elif run.trial_count and not run.records:
            where = f"in {run.data}" if run.data else "where the run kept them"
            say(f"None of the {run.trial_count} trials of {run.directory} is {where}; name their place with --data.")
    if len(searches) == 1:
        say(f"Report: {write_report(searches[0], out)}")
        return
    comparison = standings_of(searches)
    console = Terminal()
    if not comparison.is_of_one_cell:
        console.print(f"These runs have different {comparison.differ_in}, so their step times are not comparable.")
    console.print(_table(comparison))
    console.print(f"Comparison: {write_comparison(comparison, out or COMPARISON)}")


def _table(comparison: Comparison) -> FittedTable:
    table = FittedTable()
    table.texts("run", "model")
    table.numbers("nodes", "trials", "took")
    table.texts("returned")
    table.numbers("step", "speed-up", "95 % interval")
    for compared in comparison.standings:
        winner, run = compared.winner, compared.run
        cells = (
            compared.title,
            run.model_name,
            str(len(run.cluster.nodes)),
            str(run.trial_count),
            duration(run.wall_seconds) if run.wall_seconds else NOTHING,
            winner.name_beside_its_time if winner else NOTHING,
            milliseconds(winner.median_seconds, winner.time) if winner else NOTHING,
            ratio(compared.speedup),
            f"{compared.interval[0]:.2f} - {compared.interval[1]:.2f}" if compared.interval else "",
        )
        table.row(cells)
    return table

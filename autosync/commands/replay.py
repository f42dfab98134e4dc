"""The command `autosync replay`."""

from functools import partial
from pathlib import Path
from typing import Any

import click
import cloup

from autosync.commands.config import config_option
from autosync.commands.options import patience_option, searcher_option, simulator_option, training_steps_option
from autosync.commands.shell import SETTINGS, run_command
from autosync.commands.values import FILE, PLACE
from autosync.spec.address import Place
from autosync.terminal import say
from autosync.tune.options import TuneOptions


@cloup.command("replay", context_settings=SETTINGS)
@cloup.option_group(
    "Records",
    click.option("--data", required=True, type=PLACE, help="Directory or address of the records."),
    click.option("--model", required=True, help="The cell to search, as MODEL@CLUSTER: bert-mini@two_racks."),
)
@cloup.option_group(
    "Search",
    click.option("--trials", default=200, help="Strategies to time, baselines included."),
    click.option(
        "--time-budget", "time_budget_seconds", type=float, help="Recorded seconds after which the search ends."
    ),
    patience_option,
    training_steps_option,
    searcher_option,
    simulator_option,
    click.option("--warm-start", type=FILE, help="Checkpoint of a simulator to start from."),
    click.option("--round-size", type=int, help="Trials per round.  [default: 4]"),
    click.option("--seed", default=0, help="The same seed and the same records give the same search."),
)
@config_option
def command(data: Place, **options: Any) -> int:
    """Search recorded trials instead of a cluster, with a clock that advances by their durations. Stores nothing."""
    from autosync.tune.recorded.searching import search_recorded

    return search_recorded(TuneOptions.create(out=Path("runs"), **options), data, say)


main = partial(run_command, command)

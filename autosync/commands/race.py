"""The command `autosync race`."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
import cloup

from autosync.commands.config import config_option
from autosync.commands.options import (
    address_option,
    cluster_option,
    emulate_option,
    model_option,
    node_wait_option,
    nodes_per_trial_option,
    workers_option,
)
from autosync.commands.shell import INTERRUPTED, SETTINGS, run_command, without_rays_own_news
from autosync.commands.values import FILE, complete_among, menu_names
from autosync.race.options import RaceOptions
from autosync.spec import Target
from trials.capture_limit import capture_time_limit


@cloup.command("race", context_settings=SETTINGS)
@cloup.option_group("Model", model_option, capture_time_limit)
@cloup.option_group(
    "Race",
    click.option("--target", required=True, help="The metric to reach and its value, such as loss=0.08."),
    click.option(
        "--menu",
        default=RaceOptions.menu,
        shell_complete=complete_among(menu_names),
        help="A menu in search_spaces/menus, or package.module:MENU.",
    ),
    click.option("--seeds", default=RaceOptions.seeds, help="Seeds with which each discipline trains."),
    click.option("--strategy", type=FILE, help="The plain strategy, a file.  [default: the best baseline]"),
    click.option("--evaluate-every", default=Target.every, help="Steps between two checks of the target."),
    click.option("--most-steps", default=Target.steps, help="Steps after which a run is given up."),
    click.option("--trials", "runs", default=RaceOptions.runs, help="Maximum number of runs."),
    click.option("--trial-time-limit", "time_limit_seconds", default=300.0, help="Seconds a run may take."),
)
@cloup.option_group(
    "Cluster",
    address_option,
    workers_option,
    cluster_option,
    emulate_option,
    nodes_per_trial_option,
    node_wait_option,
)
@cloup.option_group(
    "Files",
    click.option("--out", type=FILE, help="Directory of the race.  [default: runs/MODEL-target-TIME]"),
    click.option("--data", type=FILE, default=Path("data"), help="Directory of records that the runs are added to."),
    click.option("--resume", is_flag=True, help="Resume the race in --out."),
    config_option,
)
def command(out: Path | None, **options: Any) -> int:
    """Compare disciplines (cut-offs, synchronization periods, compression, loads) by their time to a target.

    Each discipline and the plain strategy train on a few seeds. Models, such as digits, are Keras models on TensorFlow.
    """
    from autosync.race.command import race

    without_rays_own_news()
    try:
        return race(out, options, sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED


main = partial(run_command, command)

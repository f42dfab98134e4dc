"""The command `python -m studies collect`."""

import math
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import NOT_DONE, SETTINGS, names_in, run_command
from autosync.terminal import say

RUNTIMES = Path("runtimes")


@click.command("collect", context_settings=SETTINGS)
@click.option(
    "--plan", "plan_file", type=Path, default=Path("runtimes/plan.yaml"), help="Plan with models, clusters and counts."
)
@click.option("--out", type=Path, help="Folder of the records and the card.  [default: the plan's]")
@click.option("--time-budget", type=click.FloatRange(0, min_open=True), help="Seconds after which no trial starts.")
@click.option(
    "--settle",
    "settle_seconds",
    type=click.FloatRange(0),
    default=300.0,
    help="Longest time, in seconds, that a trial waits for other work on the machine to end.",
)
@click.option("--only", default="", help="Models to collect, separated by commas.  [default: all]")
@click.option("--cluster", default="", help="Clusters to collect on, separated by commas.  [default: all]")
@click.option("--profile", type=Path, help="JSON file with the model's profile on another device, for paced passes.")
@click.option(
    "--card", is_flag=True, help="Only write the figures of the existing records into README.md; collect no records."
)
@click.option("--dataset", is_flag=True, help="Only write runtimes/DATASET.md, the card over all folders of records.")
def command(
    plan_file: Path, out: Path | None, time_budget: float | None, card: bool, dataset: bool, **options: Any
) -> int:
    """Collect real runtimes on emulated clusters, for hours and unattended. Needs Linux.

    You can stop the command at any moment, by Ctrl-C or kill -9; the same command resumes.
    """
    from studies.collect.folder import Folder  # SciPy
    from studies.collect.plan import cells_of, check_models, cluster_of, read_plan

    if dataset:
        from studies.collect.dataset_card import write_dataset_card  # pandas

        say(f"The card of the dataset: {write_dataset_card(out or RUNTIMES)}")
        return 0
    folder = Folder(out or plan_file.parent)
    if card:
        from studies.collect.card import write_card  # pandas

        write_card(folder)
        say(f"The figures in {folder.card} now describe the records in {folder.records}.")
        return 0
    plan = read_plan(plan_file)
    check_models(plan)
    cells = cells_of(plan, names_in(options["only"]), names_in(options["cluster"]))
    from studies.collect.rounds import Collection, CollectionOrder  # pyarrow
    from trials.emulate.rootless import begin_as_root
    from trials.opening import check_profile_of

    profile: Path | None = options["profile"]
    if profile is not None:
        clusters = [cluster_of(plan, plan_file, cell.cluster) for cell in cells]
        check_profile_of(profile, [cell.model for cell in cells], clusters, "--only")
    begin_as_root(folder.cluster_name)
    with folder.held():
        seconds = math.inf if time_budget is None else time_budget
        order = CollectionOrder(plan_file, plan, tuple(cells), folder, seconds, options["settle_seconds"], profile)
        collection = Collection(order, say)
        say(f"{collection.progress.left} of {collection.progress.total} trials are left in {len(cells)} cells.")
        finished = False
        try:
            finished = collection.run()
        finally:
            say("\n".join(["", *collection.progress.summary()]))
            if not finished:
                say(f"To resume, run: python -m studies collect {shlex.join(sys.argv[1:])}")
    return 0 if finished or collection.time_is_over else NOT_DONE


main = partial(run_command, command, program="python -m studies collect")

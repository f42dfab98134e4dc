"""The command `python -m studies evaluate`: tests the simulators on stored records."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.options import records_framework_option
from autosync.commands.shell import GOES_ON, SETTINGS, run_command
from autosync.commands.values import PLACE
from autosync.spec.address import Place
from autosync.spec.pace import KINDS

EXPERIMENTS = ("accuracy", "unseen-cluster", "unseen-model", "unseen-both", "learning-curve", "ablations", "speed")
"""The names of `studies.evaluation.EXPERIMENTS`, repeated here because importing that module loads torch."""


@click.command("evaluate", context_settings=SETTINGS)
@click.option("--data", type=PLACE, default=Path("runtimes"), help="Folder of the records, or its parent folder.")
@click.option("--kind", type=click.Choice(KINDS), help="Kind of times to use, if the records have several kinds.")
@records_framework_option
@click.option("--out", type=Path, help="Folder of the report.  [default: `evaluation` in the folder of --data]")
@click.option("--simulators", default="", help="Simulators to fit, separated by commas.  [default: all]")
@click.option("--only", default="", help=f"Any of {', '.join(EXPERIMENTS)}, separated by commas.  [default: all]")
@click.option("--seeds", type=click.IntRange(1), help="Seeds of all random draws.  [default: 5]")
@click.option("--most-records", type=click.IntRange(10), help="Most records per fit, except for curves and shots.")
@click.option("--quick", "is_quick", is_flag=True, help="Two seeds and few records: takes minutes, wide intervals.")
@click.option("--report-only", is_flag=True, help="Only write the report from the kept results; fit no simulator.")
@click.pass_obj
def command(builders: Any, /, data: Place, kind: str | None, out: Path | None, **options: Any) -> None:
    """Fit the simulators on recorded step times and test them on held-out ones; tables and pictures go to --out.

    You can stop the command at any moment; the same command resumes. The report shows all kept results, including those
    of earlier commands on the same records. For each simulator it shows the results of the latest version.
    """
    from studies.evaluation.command import evaluate  # torch

    evaluate(builders, data, kind, out, **options)


main = partial(run_command, command, interrupted=GOES_ON, program="python -m studies evaluate")

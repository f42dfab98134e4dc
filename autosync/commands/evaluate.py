"""The command `autosync evaluate`: how good the simulators are on stored records."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import GOES_ON, PLACE, SETTINGS, run_command
from autosync.spec.address import Place
from autosync.spec.pace import KINDS

EXPERIMENTS = ("accuracy", "unseen-cluster", "unseen-model", "unseen-both", "learning-curve", "ablations", "speed")
"""The names of `autosync.studies.evaluation.EXPERIMENTS`, which loads torch."""


@click.command("evaluate", context_settings=SETTINGS)
@click.option("--data", type=PLACE, default=Path("runtimes"), help="Folder of the records, or with them in `records`.")
@click.option("--kind", type=click.Choice(KINDS), help="Of which records, where times of several kinds are there.")
@click.option("--out", type=Path, help="Folder of the report.  [default: `evaluation` in that of --data]")
@click.option("--simulators", default="", help="Simulators to fit, with commas between.  [default: all]")
@click.option("--only", default="", help=f"Of {', '.join(EXPERIMENTS)}, with commas between.  [default: all]")
@click.option("--seeds", type=click.IntRange(1), help="Seeds of everything drawn at random.  [default: 5]")
@click.option("--most-records", type=click.IntRange(10), help="Records fitted at most, but for curves and shots.")
@click.option("--quick", "is_quick", is_flag=True, help="Two seeds, few records: minutes, and wide intervals.")
@click.option("--report-only", is_flag=True, help="Fit nothing; write the report from the results there are.")
@click.pass_obj
def command(builders: Any, /, data: Place, kind: str | None, out: Path | None, **given: Any) -> None:
    """Fit the simulators on recorded step times and test them on others; tables and pictures go to --out.

    May be stopped at any moment; the same command goes on. The report shows all results there are, of earlier
    commands too, as far as the records are the same; of each simulator, those of its latest version.
    """
    from autosync.studies.evaluation.command import evaluate  # torch

    evaluate(builders, data, kind, out, **given)


main = partial(run_command, command, interrupted=GOES_ON)

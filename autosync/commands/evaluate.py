"""The command `autosync evaluate`: how good the simulators are on stored records."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import GOES_ON, PLACE, SETTINGS, names_in, run_command
from autosync.files import inner_folder
from autosync.spec.address import Address, Place
from autosync.studies.evaluation import (
    BUILDERS,
    EXPERIMENTS,
    Builder,
    Evaluation,
    EvaluationError,
    EvaluationSettings,
    Journal,
    measured_cells,
    passed_over,
    quick,
    write_report,
)
from autosync.studies.evaluation.cells import KINDS, split_of
from autosync.studies.evaluation.sources import opened
from autosync.terminal import say, say_all


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
def command(builders: Mapping[str, Builder], /, data: Place, kind: str | None, out: Path | None, **given: Any) -> None:
    """Fit the simulators on recorded step times and test them on others; tables and pictures go to --out.

    May be stopped at any moment; the same command goes on. The report shows all results there are, of earlier
    commands too, as far as the records are the same; of each simulator, those of its latest version.
    """
    simulators = _chosen("--simulators", given["simulators"], builders)
    experiments = _chosen("--only", given["only"], EXPERIMENTS)
    settings = _settings(given["is_quick"], given["seeds"], given["most_records"])
    if out is None and isinstance(data, Address):
        raise EvaluationError(f"--out names the folder of the report, which cannot be in {data}; name one here.")
    with opened(data, kind) as source:
        say_all(source.in_words())
    cells, small = measured_cells(source.records, split_of)
    left_out = [*small, *passed_over(cells, settings)]
    say_all(f"Passed over: {sentence}" for sentence in left_out)
    if out is None:
        assert isinstance(data, Path)
        out = inner_folder(data, "evaluation")
    evaluation = Evaluation(cells, settings, builders, Journal(out / "results.jsonl"))
    done = 0 if given["report_only"] else evaluation.run(experiments, simulators, time.process_time, say)
    say(f"{done} results are new. The report: {write_report(out, evaluation.findings(), left_out)}")


def _settings(is_quick: bool, seeds: int | None, most_records: int | None) -> EvaluationSettings:
    settings = quick() if is_quick else EvaluationSettings()
    if seeds is not None:
        settings = replace(settings, seeds=seeds)
    if most_records is not None:
        settings = replace(settings, most_records=most_records)
    return settings


def _chosen(option: str, given: str, known: Mapping[str, Builder] | Sequence[str]) -> list[str]:
    """The names in `given`, in the order of `known`; all of them when it is empty. Raises `EvaluationError`."""
    names = names_in(given)
    for name in names:
        if name not in known:
            raise EvaluationError(f"{option} names any of {', '.join(known)}; not {name!r}.")
    return [name for name in known if not names or name in names]


main = partial(run_command, command, interrupted=GOES_ON, obj=BUILDERS)

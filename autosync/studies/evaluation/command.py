"""`autosync evaluate`: simulators are fitted and tested, and a report is written."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosync.files import inner_folder
from autosync.spec.address import Address, Place
from autosync.studies.evaluation.cells import EvaluationError, measured_cells, split_of
from autosync.studies.evaluation.journal import Evaluation, Journal
from autosync.studies.evaluation.report import write_report
from autosync.studies.evaluation.simulators import BUILDERS, Builder
from autosync.studies.evaluation.sources import opened
from autosync.studies.evaluation.tasks import EXPERIMENTS, EvaluationSettings, passed_over, quick
from autosync.terminal import say, say_all


def evaluate(
    builders: Mapping[str, Builder] | None, data: Place, kind: str | None, out: Path | None, **given: Any
) -> None:
    """Evaluate the simulators that `builders` make, by default all, as the options ask. Raises `AutosyncError`."""
    builders = BUILDERS if builders is None else builders
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
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise EvaluationError(f"{option} names any of {', '.join(known)}; not {name!r}.")
    return [name for name in known if not names or name in names]

"""`python -m studies evaluate`: fits and tests simulators, and writes a report."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosync.files import inner_folder
from autosync.pretraining.cells import EvaluationError, build_cells, split_of
from autosync.pretraining.sources import open_source
from autosync.spec.address import Address, Place
from autosync.terminal import say, say_all
from studies.evaluation.journal import Journal, SimulatorEvaluation
from studies.evaluation.report import write_report
from studies.evaluation.simulators import BUILDERS, Builder, builders_for
from studies.evaluation.tasks import EXPERIMENTS, EvaluationSettings, missing_data, quick


def evaluate(
    builders: Mapping[str, Builder] | None, data: Place, kind: str | None, out: Path | None, **options: Any
) -> None:
    """Evaluate the simulators of `builders`, by default all, according to the options. Raises `AutosyncError`."""
    simulators = _select("--simulators", options["simulators"], builders or BUILDERS)
    experiments = _select("--only", options["only"], EXPERIMENTS)
    settings = _settings(options["is_quick"], options["seeds"], options["most_records"])
    if out is None and isinstance(data, Address):
        raise EvaluationError(f"The report cannot be written to {data}; name a local folder with --out.")
    with open_source(data, kind, framework=options["framework"]) as source:
        say_all(source.in_words())
    cells, small = build_cells(source.records, split_of)
    left_out = [*small, *missing_data(cells, settings)]
    say_all(f"Skipped: {sentence}" for sentence in left_out)
    if out is None:
        assert isinstance(data, Path)
        out = inner_folder(data, "evaluation")
    builders = builders_for(source.framework) if builders is None else builders
    evaluation = SimulatorEvaluation(cells, settings, builders, Journal(out / "results.jsonl"))
    done = 0 if options["report_only"] else evaluation.run(experiments, simulators, time.process_time, say)
    say(f"{done} results are new. The report: {write_report(out, evaluation.findings(), left_out)}")


def _settings(is_quick: bool, seeds: int | None, most_records: int | None) -> EvaluationSettings:
    settings = quick() if is_quick else EvaluationSettings()
    if seeds is not None:
        settings = replace(settings, seeds=seeds)
    if most_records is not None:
        settings = replace(settings, most_records=most_records)
    return settings


def _select(option: str, text: str, known: Mapping[str, Builder] | Sequence[str]) -> list[str]:
    """Return the names in `text`, in the order of `known`; all of `known` if `text` is empty.

    Raises `EvaluationError` for an unknown name.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise EvaluationError(f"{option} needs names among {', '.join(known)}, but has {name!r}.")
    return [name for name in known if not names or name in names]

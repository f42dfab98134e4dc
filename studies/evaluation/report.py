"""Writes the evaluation's report: a page in Markdown, tables as CSV, figures as JSON, pictures as PNG and SVG."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from autosync.files import make_folder, write_atomically
from autosync.stats.tables import TextTable
from studies.evaluation.answers import TABLES
from studies.evaluation.findings import EvaluationFindings, PredictionKey
from studies.evaluation.pictures import PICTURES
from studies.evaluation.targets import targets, targets_table
from studies.evaluation.tasks import AS_IT_IS
from studies.pages import RC, write_picture

PAGE = "evaluation.md"
INTERVALS = (
    "Square brackets hold 95 % intervals from {resamples} bootstrap resamples, over seeds and over the test strategies "
    "of each cell; cells are not resampled, so intervals are valid for these models and clusters only. *pairwise* "
    "leaves out pairs whose times differ by less than twice the noise of their difference. *peak@k*: time of the "
    "fastest strategy divided by that of the fastest among the k predicted fastest; *regret*: 1 / peak@1 - 1."
)


def write_report(folder: Path, findings: EvaluationFindings, passed_over: Sequence[str]) -> Path:
    """Write all files into `folder`, each atomically; return the path of the page. Raises `WriteError`."""
    tables = [targets_table(findings), *(make(findings) for make in TABLES)]
    pictures = _draw(make_folder(folder), findings)
    for table in tables:
        write_atomically(folder / f"{table.name}.csv", table.csv())
    write_atomically(folder / "result.json", json.dumps(_figures(findings, passed_over), indent=1) + "\n")
    write_atomically(folder / PAGE, _page(findings, tables, pictures, passed_over))
    return folder / PAGE


def _page(
    findings: EvaluationFindings, tables: Sequence[TextTable], pictures: Sequence[str], passed_over: Sequence[str]
) -> str:
    done, all_jobs = findings.progress()
    trials = sum(len(measurement.trials) for cell in findings.cells for measurement in cell.measurements)
    lines = [
        "# Evaluation of the simulators",
        "",
        f"{trials} trials in {len(findings.cells)} cells; {done} of {all_jobs} fits are done. "
        + INTERVALS.format(resamples=findings.settings.resamples),
        "",
    ]
    lines += [_versions(findings), ""]
    if passed_over:
        lines += ["Skipped:", "", *(f"- {sentence}" for sentence in passed_over), ""]
    for table in tables:
        lines.append(table.markdown())
        if table.name in pictures:
            lines += [f"![{table.title}]({table.name}.svg)", ""]
    return "\n".join(lines).rstrip() + "\n"


def _versions(findings: EvaluationFindings) -> str:
    """Return a sentence on the version of each simulator that the page shows."""
    of_version: dict[tuple[int, int], list[str]] = {}
    for name, builder in findings.builders.items():
        of_version.setdefault((findings.versions[name], builder.version), []).append(name)
    parts = []
    for (shown, now), names in of_version.items():
        outdated = f" (the present version is {now})" if shown != now else ""
        parts.append(f"of version {shown}: {', '.join(names)}{outdated}")
    return f"Results are {'; '.join(parts)}."


def _figures(findings: EvaluationFindings, passed_over: Sequence[str]) -> dict[str, Any]:
    """Return every measured score with its interval, as JSON."""
    scores = []
    subjects = [PredictionKey("accuracy", name) for name in findings.simulators]
    for experiment in ("unseen-cluster", "unseen-model", "unseen-both", "learning-curve"):
        sizes = findings.sizes(experiment)
        subjects += [PredictionKey(experiment, name, size=size) for name in findings.simulators for size in sizes]
    for name, builder in findings.builders.items():
        subjects += [PredictionKey("ablations", name, ablation) for ablation in (AS_IT_IS, *builder.ablations)]
    for subject in subjects:
        for targets_only in (False, True):
            estimates = findings.scores(subject, targets_only)
            if estimates is not None:
                metrics = {name: estimate.to_json() for name, estimate in estimates.items()}
                cells = "targets" if targets_only else "all"
                scores.append({**subject._asdict(), "cells": cells, "seeds": findings.seeds(subject), **metrics})
    look = findings.second_look()
    return {
        "settings": vars(findings.settings),
        "cells": {cell.name: len(cell.measurements) for cell in findings.cells},
        "versions": findings.versions,
        "targets": [target.to_json() for target in targets(findings)],
        "second_trial": None if look is None else {name: estimate.to_json() for name, estimate in look.items()},
        "scores": scores,
        "speed": {name: [_speed_figures(result) for result in findings.speed(name)] for name in findings.simulators},
        "passed_over": list(passed_over),
    }


def _speed_figures(result: Any) -> dict[str, Any]:
    names = ("fit_records", "fit_seconds", "candidates_per_second")
    return {name: getattr(result, name) for name in names}


def _draw(folder: Path, findings: EvaluationFindings) -> list[str]:
    """Write the pictures that have data; return their names."""
    drawn = []
    with mpl.rc_context(dict[Any, Any](RC)):
        for name, draw in PICTURES.items():
            figure = draw(findings)
            if figure is not None:
                write_picture(folder, name, figure)
                drawn.append(name)
    return drawn

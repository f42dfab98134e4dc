"""The evaluation written down: a page in Markdown, tables as CSV, figures as JSON, pictures as PNG and SVG."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from autosync.files import made_folder, write_atomically
from autosync.stats.tables import Table
from autosync.studies.evaluation.answers import TABLES
from autosync.studies.evaluation.findings import EvaluationFindings, Subject
from autosync.studies.evaluation.pictures import PICTURES
from autosync.studies.evaluation.targets import targets, targets_table
from autosync.studies.evaluation.tasks import AS_IT_IS
from autosync.studies.pages import RC, write_picture

PAGE = "evaluation.md"
INTERVALS = (
    "Square brackets hold 95 % intervals from {resamples} bootstrap resamples, over seeds and over the test strategies "
    "of each cell; cells are not drawn, so intervals speak about these models and clusters. Pairs whose times differ "
    "by less than twice the noise of their difference are left out of *pairwise*. *peak@k*: time of the fastest over "
    "that of the fastest among the k predicted fastest; *regret*: 1 / peak@1 - 1."
)


def write_report(folder: Path, findings: EvaluationFindings, passed_over: Sequence[str]) -> Path:
    """Write all files into `folder`, each atomically; return the page's path. Raises `WriteError`."""
    tables = [targets_table(findings), *(make(findings) for make in TABLES)]
    pictures = _draw(made_folder(folder), findings)
    for table in tables:
        write_atomically(folder / f"{table.name}.csv", table.csv())
    write_atomically(folder / "result.json", json.dumps(_figures(findings, passed_over), indent=1) + "\n")
    write_atomically(folder / PAGE, _page(findings, tables, pictures, passed_over))
    return folder / PAGE


def _page(
    findings: EvaluationFindings, tables: Sequence[Table], pictures: Sequence[str], passed_over: Sequence[str]
) -> str:
    done, all_jobs = findings.done()
    trials = sum(len(each.trials) for cell in findings.cells for each in cell.measurements)
    lines = [
        "# Evaluation of the simulators",
        "",
        f"{trials} trials in {len(findings.cells)} cells; {done} of {all_jobs} fits are done. "
        + INTERVALS.format(resamples=findings.settings.resamples),
        "",
    ]
    lines += [_versions(findings), ""]
    if passed_over:
        lines += ["Passed over:", "", *(f"- {sentence}" for sentence in passed_over), ""]
    for table in tables:
        lines.append(table.markdown())
        if table.name in pictures:
            lines += [f"![{table.title}]({table.name}.svg)", ""]
    return "\n".join(lines).rstrip() + "\n"


def _versions(findings: EvaluationFindings) -> str:
    """The version of each simulator that the page shows."""
    of_version: dict[tuple[int, int], list[str]] = {}
    for name, builder in findings.builders.items():
        of_version.setdefault((findings.versions[name], builder.version), []).append(name)
    said = []
    for (shown, now), names in of_version.items():
        outdated = f", of which there is version {now} now" if shown != now else ""
        said.append(f"of version {shown}: {', '.join(names)}{outdated}")
    return f"Results are {'; '.join(said)}."


def _figures(findings: EvaluationFindings, passed_over: Sequence[str]) -> dict[str, Any]:
    """Every score with its interval, as JSON; what was not measured is left out."""
    scores = []
    subjects = [Subject("accuracy", name) for name in findings.simulators]
    for experiment in ("unseen-cluster", "unseen-model", "unseen-both", "learning-curve"):
        sizes = findings.sizes(experiment)
        subjects += [Subject(experiment, name, size=size) for name in findings.simulators for size in sizes]
    for name, builder in findings.builders.items():
        subjects += [Subject("ablations", name, ablation) for ablation in (AS_IT_IS, *builder.ablations)]
    for subject in subjects:
        for targets_only in (False, True):
            found = findings.scores(subject, targets_only)
            if found is not None:
                metrics = {name: estimate.to_json() for name, estimate in found.items()}
                cells = "targets" if targets_only else "all"
                scores.append({**subject._asdict(), "cells": cells, "seeds": findings.seeds(subject), **metrics})
    look = findings.second_look()
    return {
        "settings": vars(findings.settings),
        "cells": {cell.name: len(cell.measurements) for cell in findings.cells},
        "versions": findings.versions,
        "targets": [each.to_json() for each in targets(findings)],
        "second_trial": None if look is None else {name: estimate.to_json() for name, estimate in look.items()},
        "scores": scores,
        "speed": {name: [_speed(each) for each in findings.speed(name)] for name in findings.simulators},
        "passed_over": list(passed_over),
    }


def _speed(result: Any) -> dict[str, Any]:
    names = ("fit_records", "fit_seconds", "candidates_per_second")
    return {name: getattr(result, name) for name in names}


def _draw(folder: Path, findings: EvaluationFindings) -> list[str]:
    """The names of the pictures there is something to draw for."""
    drawn = []
    with mpl.rc_context(dict[Any, Any](RC)):
        for name, draw in PICTURES.items():
            figure = draw(findings)
            if figure is not None:
                write_picture(folder, name, figure)
                drawn.append(name)
    return drawn

"""The evaluation's answers, a table each: how good simulators are, how far they carry over, and why."""

import math
from collections.abc import Callable, Sequence

from autosync.stats.estimate import Estimate
from autosync.stats.tables import NOTHING, Table, in_percent, percent
from autosync.studies.evaluation.details import DETAILS
from autosync.studies.evaluation.findings import EvaluationFindings, Scores, Subject
from autosync.studies.evaluation.metrics import METRICS, Metric, best_possible_accuracy, best_possible_error
from autosync.studies.evaluation.tasks import ABLATIONS, AS_IT_IS


def cell_text(estimate: Estimate | None, metric: Metric) -> str:
    """A figure with its 95 % interval, such as `0.912 [0.897, 0.925]`."""
    if estimate is None or not math.isfinite(estimate.value):
        return NOTHING
    if metric.in_percent:
        return in_percent(estimate)
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


CHANGES = ("pairwise", "kendall_tau", "mape")
UNSEEN = {"unseen-cluster": "cluster", "unseen-model": "model", "unseen-both": "both"}


def accuracy_table(findings: EvaluationFindings) -> Table:
    rows: list[tuple[str, ...]] = []
    found = {name: findings.scores(Subject("accuracy", name)) for name in findings.simulators}
    best = findings.best()
    for name, scores in found.items():
        if scores is not None:
            behind = "best" if name == best else _difference(scores, found[best] if best else None)
            rows.append((name, *_metrics_text(scores), behind, str(findings.seeds(Subject("accuracy", name)))))
    look = findings.second_look()
    if look is not None:
        rows.append(("*a second trial*", *_metrics_text(look), NOTHING, NOTHING))
        perfect = {
            "pairwise": f"{best_possible_accuracy(look['pairwise'].value):.3f}",
            "mape": percent(best_possible_error(look["mape"].value)),
        }
        rows.append(
            ("*perfect knowledge, at most*", *(perfect.get(each, NOTHING) for each in METRICS), NOTHING, NOTHING)
        )
    about = (
        "Fitted on the train part of all cells, when to stop chosen on the validation part, tested on the test part; "
        "means over cells. *A second trial*: a strategy's second trial as the prediction of its first, by the same "
        "metrics. *Behind the best*: difference in pairwise accuracy, resampled alike."
    )
    header = ("simulator", *(metric.heading for metric in METRICS.values()), "behind the best", "seeds")
    return Table("accuracy", "Unseen strategies in known cells", about, header, rows)


def unseen_table(findings: EvaluationFindings) -> Table:
    rows = []
    for experiment, what in UNSEEN.items():
        for name in findings.simulators:
            everywhere = findings.scores(Subject(experiment, name, size=0))
            row = [what, name, *_two(everywhere)]
            for size in sorted(findings.settings.shots):
                row += _two(findings.scores(Subject(experiment, name, size=size), targets_only=True))
            if any(each != NOTHING for each in row[2:]):
                rows.append(tuple(row))
    targets = ", ".join(cell.name for cell in findings.targets)
    about = (
        "Fitted on the cells of other clusters, of other models, or of neither this cluster nor this model; with "
        "shots, then adjusted to so many trials of the cell itself, as a search adjusts what it starts with. First the "
        "test strategies of all cells so left out; then "
        f"those of the target cells, in which every model and every cluster comes once: {targets}."
    )
    shots = [f"{size}-shot {what}" for size in sorted(findings.settings.shots) for what in ("pairwise", "MAPE")]
    header = ("unseen", "simulator", "zero-shot pairwise, all", "zero-shot MAPE, all", *shots)
    return Table("unseen", "Unseen models and clusters", about, header, rows)


def learning_curve_table(findings: EvaluationFindings) -> Table:
    sizes, rows = findings.sizes("learning-curve"), []
    for metric in ("pairwise", "peak_at_1", "mape"):
        for name in findings.simulators:
            found = [findings.scores(Subject("learning-curve", name, size=size)) for size in sizes]
            texts = [_text(each, metric) for each in found]
            if any(each != NOTHING for each in texts):
                rows.append((METRICS[metric].heading, name, *texts))
    about = (
        "Fitted on so many trials of the one cell that is tested, as a search would have them by then, and on nothing "
        "else; means over the target cells that have so many."
    )
    header = ("metric", "simulator", *(f"{size} records" for size in sizes))
    return Table("learning_curve", "Learning curves", about, header, rows)


def ablations_table(findings: EvaluationFindings) -> Table:
    rows = []
    for name in findings.simulators:
        base = findings.scores(Subject("ablations", name))
        for ablation in ABLATIONS:
            scores = findings.scores(Subject("ablations", name, ablation))
            if base is None or scores is None:
                continue
            changes = [_difference(scores, base, each) for each in CHANGES]
            rows.append((name, ablation, _text(base, "pairwise"), _text(scores, "pairwise"), *changes))
    about = (
        "Each learned simulator fitted and tested with the variables' order shuffled, without the replay's figures, or "
        "without the cluster's topology; what that changes, with intervals of the differences."
    )
    header = (
        "simulator",
        "ablation",
        f"pairwise {AS_IT_IS}",
        "pairwise then",
        *(f"change in {METRICS[each].heading}" for each in CHANGES),
    )
    return Table("ablations", "Why: what is taken away", about, header, rows)


TABLES: Sequence[Callable[[EvaluationFindings], Table]] = (
    accuracy_table,
    unseen_table,
    learning_curve_table,
    ablations_table,
    *DETAILS,
)
"""The tables, in the order of the report."""


def _text(scores: Scores | None, name: str) -> str:
    return cell_text(None if scores is None else scores[name], METRICS[name])


def _metrics_text(scores: Scores) -> list[str]:
    return [_text(scores, name) for name in METRICS]


def _difference(scores: Scores, other: Scores | None, name: str = "pairwise") -> str:
    return cell_text(None if other is None else scores[name].minus(other[name]), METRICS[name])


def _two(scores: Scores | None) -> list[str]:
    return [_text(scores, name) for name in ("pairwise", "mape")]

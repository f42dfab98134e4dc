"""The evaluation's main tables: accuracy, transfer to unseen cells, learning curves and ablations."""

import math
from collections.abc import Callable, Sequence

from autosync.pretraining.metrics import METRICS, Metric, best_possible_accuracy, best_possible_error
from autosync.stats.estimate import Estimate
from autosync.stats.tables import NOTHING, TextTable, in_percent, percent
from studies.evaluation.details import DETAILS
from studies.evaluation.findings import EvaluationFindings, PredictionKey, Scores
from studies.evaluation.tasks import ABLATIONS, AS_IT_IS


def cell_text(estimate: Estimate | None, metric: Metric) -> str:
    """Return a figure with its 95 % interval, such as `0.912 [0.897, 0.925]`."""
    if estimate is None or not math.isfinite(estimate.value):
        return NOTHING
    if metric.in_percent:
        return in_percent(estimate)
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


CHANGES = ("pairwise", "kendall_tau", "mape")
UNSEEN = {"unseen-cluster": "cluster", "unseen-model": "model", "unseen-both": "both"}


def accuracy_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of scores on unseen strategies in known cells."""
    rows: list[tuple[str, ...]] = []
    by_simulator = {name: findings.scores(PredictionKey("accuracy", name)) for name in findings.simulators}
    best = findings.best()
    for name, scores in by_simulator.items():
        if scores is not None:
            behind = "best" if name == best else _difference(scores, by_simulator[best] if best else None)
            rows.append((name, *_metrics_text(scores), behind, str(findings.seeds(PredictionKey("accuracy", name)))))
    look = findings.second_look()
    if look is not None:
        rows.append(("*a second trial*", *_metrics_text(look), NOTHING, NOTHING))
        perfect = {
            "pairwise": f"{best_possible_accuracy(look['pairwise'].value):.3f}",
            "mape": percent(best_possible_error(look["mape"].value)),
        }
        rows.append(
            ("*perfect knowledge, at most*", *(perfect.get(name, NOTHING) for name in METRICS), NOTHING, NOTHING)
        )
    about = (
        "Fitted on the train part of all cells, stopped by the validation part, tested on the test part; means over "
        "cells. *A second trial*: a strategy's second trial as the prediction of its first, by the same metrics. "
        "*Behind the best*: difference in pairwise accuracy, with the same resamples for both."
    )
    header = ("simulator", *(metric.heading for metric in METRICS.values()), "behind the best", "seeds")
    return TextTable("accuracy", "Unseen strategies in known cells", about, header, rows)


def unseen_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of scores on unseen models and clusters, by number of shots."""
    rows = []
    for experiment, unseen in UNSEEN.items():
        for name in findings.simulators:
            everywhere = findings.scores(PredictionKey(experiment, name, size=0))
            row = [unseen, name, *_two(everywhere)]
            for size in sorted(findings.settings.shots):
                row += _two(findings.scores(PredictionKey(experiment, name, size=size), targets_only=True))
            if any(text != NOTHING for text in row[2:]):
                rows.append(tuple(row))
    targets = ", ".join(cell.name for cell in findings.targets)
    about = (
        "Fitted on the cells of other clusters, of other models, or of both other clusters and other models. With k "
        "shots, the simulator is then adjusted to k trials of the tested cell, as a search adjusts its pretrained "
        "simulator. The zero-shot columns for all are over the test strategies of all held-out cells, the other "
        f"columns over the target cells, in which every model and every cluster occurs at least once: {targets}."
    )
    shots = [f"{size}-shot {metric}" for size in sorted(findings.settings.shots) for metric in ("pairwise", "MAPE")]
    header = ("unseen", "simulator", "zero-shot pairwise, all", "zero-shot MAPE, all", *shots)
    return TextTable("unseen", "Unseen models and clusters", about, header, rows)


def learning_curve_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of scores by the number of records of one cell."""
    sizes, rows = findings.sizes("learning-curve"), []
    for metric in ("pairwise", "peak_at_1", "mape"):
        for name in findings.simulators:
            by_size = [findings.scores(PredictionKey("learning-curve", name, size=size)) for size in sizes]
            texts = [_text(scores, metric) for scores in by_size]
            if any(text != NOTHING for text in texts):
                rows.append((METRICS[metric].heading, name, *texts))
    about = (
        "Fitted only on the given number of trials of the tested cell, as a search would have them by then; means over "
        "the target cells with that many trials."
    )
    header = ("metric", "simulator", *(f"{size} records" for size in sizes))
    return TextTable("learning_curve", "Learning curves", about, header, rows)


def ablations_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of ablations of the learned simulators."""
    rows = []
    for name in findings.simulators:
        base = findings.scores(PredictionKey("ablations", name))
        for ablation in ABLATIONS:
            scores = findings.scores(PredictionKey("ablations", name, ablation))
            if base is None or scores is None:
                continue
            changes = [_difference(scores, base, metric) for metric in CHANGES]
            rows.append((name, ablation, _text(base, "pairwise"), _text(scores, "pairwise"), *changes))
    about = (
        "Each learned simulator is fitted and tested with the variables' order shuffled, without the replay's figures, "
        "or without the cluster's topology; the changes have intervals of the differences."
    )
    header = (
        "simulator",
        "ablation",
        f"pairwise {AS_IT_IS}",
        "pairwise then",
        *(f"change in {METRICS[metric].heading}" for metric in CHANGES),
    )
    return TextTable("ablations", "Why: ablations", about, header, rows)


TABLES: Sequence[Callable[[EvaluationFindings], TextTable]] = (
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


def _difference(scores: Scores, base: Scores | None, name: str = "pairwise") -> str:
    return cell_text(None if base is None else scores[name].minus(base[name]), METRICS[name])


def _two(scores: Scores | None) -> list[str]:
    return [_text(scores, name) for name in ("pairwise", "mape")]

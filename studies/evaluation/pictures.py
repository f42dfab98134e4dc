"""The evaluation's pictures: accuracy, learning curves, unseen cells, ablations, predicted versus measured times."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from autosync.pretraining.metrics import METRICS, best_possible_accuracy
from autosync.stats.estimate import Estimate
from autosync.words.strategy import ARCHITECTURES, architecture_of
from studies.evaluation.findings import EvaluationFindings, PredictionKey, Scores
from studies.evaluation.tasks import ABLATIONS
from studies.pages import mark

# Okabe and Ito's colors, distinguishable with any kind of color vision; markers encode the same information.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7f7f7f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LEGEND_INCHES = 2.6
"""Width of a legend's widest entry, in inches."""
SECOND_TRIAL = "a second trial as the prediction"


def accuracy_picture(findings: EvaluationFindings) -> Figure | None:
    """Draw pairwise accuracy, peak@1 and MAPE of each simulator on unseen strategies."""
    by_simulator = _scores_by_simulator(findings, "accuracy")
    if not by_simulator:
        return None
    look, metrics = findings.second_look(), ("pairwise", "peak_at_1", "mape")
    figure = Figure(figsize=(11, 1.4 + 0.42 * len(by_simulator)))
    axes = figure.subplots(1, len(metrics), sharey=True)
    for axis, name in zip(axes, metrics, strict=True):
        for row, (simulator, scores) in enumerate(by_simulator.items()):
            _dot(axis, scores[name], row, _style(findings, simulator), METRICS[name].in_percent)
        if look is not None:
            factor = 100 if METRICS[name].in_percent else 1
            axis.axvline(factor * look[name].value, color="#555555", linestyle="--", linewidth=1.2, label=SECOND_TRIAL)
        axis.set_xlabel(_axis_label(name))
    axes[0].set_yticks(range(len(by_simulator)), list(by_simulator))
    axes[0].set_ylim(len(by_simulator) - 0.5, -0.5)
    _legend_below(figure, axes[0])
    figure.suptitle("Unseen strategies in known cells (95 % intervals)")
    return figure


def learning_curve_picture(findings: EvaluationFindings) -> Figure | None:
    """Draw pairwise accuracy and MAPE over the number of records of one cell."""
    return _curves(
        findings, ["learning-curve"], ("pairwise", "mape"), "Learning curves: one cell's records alone (95 % intervals)"
    )


def unseen_picture(findings: EvaluationFindings) -> Figure | None:
    """Draw pairwise accuracy over shots, for an unseen cluster, an unseen model, and both."""
    experiments = ["unseen-cluster", "unseen-model", "unseen-both"]
    return _curves(findings, experiments, ("pairwise",), "Transfer to unseen cells (target cells, 95 % intervals)")


def ablations_picture(findings: EvaluationFindings) -> Figure | None:
    """Draw the change of each learned simulator's pairwise accuracy by each ablation."""
    base = {name: findings.scores(PredictionKey("ablations", name)) for name in findings.simulators}
    changes = {
        ablation: {
            name: scores["pairwise"].minus(known["pairwise"])
            for name, known in base.items()
            if known and (scores := findings.scores(PredictionKey("ablations", name, ablation)))
        }
        for ablation in ABLATIONS
    }
    names = list(dict.fromkeys(name for estimates in changes.values() for name in estimates))
    if not names:
        return None
    figure = Figure(figsize=(10, 1.4 + 0.42 * len(names)))
    axes = figure.subplots(1, len(ABLATIONS), sharey=True, sharex=True)
    for axis, (ablation, estimates) in zip(axes, changes.items(), strict=True):
        for row, name in enumerate(names):
            if name in estimates:
                _dot(axis, estimates[name], row, _style(findings, name))
        axis.axvline(0, color="#555555", linestyle="--", linewidth=1.2)
        axis.set_title(ablation, fontsize=10)
        axis.set_xlabel("change in pairwise accuracy")
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    figure.suptitle("Change in accuracy by ablations (left of the line: worse; 95 % intervals)")
    return figure


def scatter_picture(findings: EvaluationFindings) -> Figure | None:
    """Draw predicted over measured step time of every test strategy, by architecture, one panel per simulator."""
    points = {name: findings.points(PredictionKey("accuracy", name)) for name in findings.simulators}
    points = {name: tested for name, tested in points.items() if tested}
    if not points:
        return None
    columns = min(len(points), 4)
    rows = math.ceil(len(points) / columns)
    figure = Figure(figsize=(3.3 * columns + 0.4, 3.3 * rows + 0.7))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axis in grid.flat[len(points) :]:
        axis.set_visible(False)
    values = [
        1e3 * seconds
        for tested in points.values()
        for p in tested
        for seconds in (p.measurement.seconds, math.exp(p.predicted))
    ]
    limits = (0.8 * min(values), 1.25 * max(values))
    for axis, (name, tested) in zip(grid.flat, points.items(), strict=False):
        for kind, color, marker in zip(ARCHITECTURES, COLORS, MARKERS, strict=False):
            record_of = [(p, p.measurement.trials[0]) for p in tested]
            chosen = [p for p, record in record_of if architecture_of(record.strategy, record.model) == kind]
            measured = [1e3 * p.measurement.seconds for p in chosen]
            predicted = [1e3 * math.exp(p.predicted) for p in chosen]
            axis.scatter(measured, predicted, s=14, marker=marker, color=color, alpha=0.65, linewidths=0, label=kind)
        axis.plot(limits, limits, color="#555555", linestyle="--", linewidth=1.2, label="predicted = measured")
        axis.set(xscale="log", yscale="log", xlim=limits, ylim=limits, aspect="equal", title=name)
        _plain_ticks(axis, limits)
    for place, axis in enumerate(grid.flat[: len(points)]):
        if place + columns >= len(points):
            axis.tick_params(labelbottom=True)
            axis.set_xlabel("measured ms a step")
        if place % columns == 0:
            axis.set_ylabel("predicted ms a step")
    _legend_below(figure, grid.flat[0])
    return figure


PICTURES: Mapping[str, Callable[[EvaluationFindings], Figure | None]] = {
    "accuracy": accuracy_picture,
    "learning_curve": learning_curve_picture,
    "unseen": unseen_picture,
    "ablations": ablations_picture,
    "accuracy_by_architecture": scatter_picture,
}
"""The functions that draw pictures, by the name of the picture's table; they return None without data."""


def _plain_ticks(axis: Axes, limits: tuple[float, float]) -> None:
    """Label logarithmic axes with 1, 2 and 5 times powers of ten, or only with powers of ten if the range is wide."""
    steps = (1.0, 2.0, 5.0) if limits[1] < 300 * limits[0] else (1.0,)
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_major_locator(LogLocator(subs=steps))
        scale.set_minor_locator(NullLocator())
        scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _scores_by_simulator(findings: EvaluationFindings, experiment: str) -> dict[str, Scores]:
    by_simulator = {name: findings.scores(PredictionKey(experiment, name)) for name in findings.simulators}
    return {name: scores for name, scores in by_simulator.items() if scores is not None}


def _has_results(findings: EvaluationFindings, experiment: str) -> bool:
    subjects = [
        PredictionKey(experiment, name, size=size)
        for name in findings.simulators
        for size in findings.sizes(experiment)
    ]
    return any(findings.scores(subject, targets_only=True) is not None for subject in subjects)


def _curves(
    findings: EvaluationFindings, experiments: Sequence[str], metrics: Sequence[str], title: str
) -> Figure | None:
    """Draw a panel per experiment and metric: lines over sizes with intervals, slightly shifted against each other."""
    drawn = [experiment for experiment in experiments if _has_results(findings, experiment)]
    panels = [(experiment, metric) for experiment in drawn for metric in metrics]
    if not panels:
        return None
    figure = Figure(figsize=(1.0 + 4.2 * len(panels), 4.2))
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=len(metrics) == 1)[0]
    look = findings.second_look()
    for axis, (experiment, metric) in zip(axes, panels, strict=True):
        sizes = findings.sizes(experiment)
        for simulator in findings.simulators:
            _line(axis, findings, PredictionKey(experiment, simulator), metric, sizes)
        factor = 100 if METRICS[metric].in_percent else 1
        if look is not None:
            axis.axhline(
                factor * look[metric].value, color="#555555", linestyle="--", linewidth=1.2, label=SECOND_TRIAL
            )
        if metric == "pairwise" and look is not None:
            ceiling = best_possible_accuracy(look[metric].value)
            axis.axhline(ceiling, color="#555555", linestyle=":", linewidth=1.2, label="perfect knowledge, at most")
        axis.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        axis.set_xlabel("trials of the cell that are fitted")
        axis.set_ylabel(_axis_label(metric))
        if len(experiments) > 1:
            axis.set_title(experiment.replace("-", " "), fontsize=10)
    _legend_below(figure, axes[0])
    figure.suptitle(title)
    return figure


def _line(axis: Axes, findings: EvaluationFindings, subject: PredictionKey, metric: str, sizes: Sequence[int]) -> None:
    by_size = [findings.scores(subject._replace(size=size), targets_only=True) for size in sizes]
    known = [
        (at, scores[metric]) for at, scores in enumerate(by_size) if scores and math.isfinite(scores[metric].value)
    ]
    if not known:
        return
    names, factor = findings.simulators, 100 if METRICS[metric].in_percent else 1
    beside = 0.06 * (names.index(subject.simulator) - (len(names) - 1) / 2)
    color, marker = _style(findings, subject.simulator)
    places = [at + beside for at, _ in known]
    values = [factor * estimate.value for _, estimate in known]
    axis.errorbar(
        places, values, yerr=factor * np.transpose([_arms(estimate) for _, estimate in known]), color=color,
        marker=marker, markersize=5, linewidth=1.4, elinewidth=0.9, capsize=2, label=subject.simulator,
    )  # fmt: skip


def _dot(axis: Axes, estimate: Estimate, row: int, style: tuple[str, str], in_percent: bool = False) -> None:
    if not math.isfinite(estimate.value):
        return
    factor, (low, high) = 100 if in_percent else 1, _arms(estimate)
    mark(axis, factor * estimate.value, (factor * low, factor * high), row, *style)


def _arms(estimate: Estimate) -> tuple[float, float]:
    return max(estimate.value - estimate.low, 0.0), max(estimate.high - estimate.value, 0.0)


def _style(findings: EvaluationFindings, simulator: str) -> tuple[str, str]:
    place = findings.simulators.index(simulator) % len(COLORS)
    return COLORS[place], MARKERS[place]


def _axis_label(name: str) -> str:
    labels = {"pairwise": "pairwise accuracy", "peak_at_1": "peak@1 (best time / chosen's time)", "mape": "MAPE (%)"}
    return labels[name]


def _legend_below(figure: Figure, axis: Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        fitting = max(1, int(figure.get_figwidth() / LEGEND_INCHES))
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), fitting), fontsize=9)

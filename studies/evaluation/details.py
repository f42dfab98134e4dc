"""The evaluation's detailed tables: by cell and architecture, largest errors, speed, and the records."""

import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from autosync.cost.composed import VERIFIED
from autosync.pretraining.metrics import mean_of, order_beyond_noise, pairwise_beyond_noise, second_look
from autosync.stats.tables import NOTHING, TextTable, percent
from autosync.words.strategy import ARCHITECTURES, summary_of
from studies.evaluation import ar_topk
from studies.evaluation.findings import EvaluationFindings, PredictedPoint, PredictionKey
from studies.evaluation.near_top import near_top_table

WORST = 20


def by_architecture_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of errors by the strategies' architecture."""
    rows = []
    for name in findings.simulators:
        points = findings.points(PredictionKey("accuracy", name))
        for architecture in ARCHITECTURES:
            errors = [_log_error(point) for point in points if point.measurement.architecture == architecture]
            if errors:
                error = statistics.fmean(abs(math.expm1(log_ratio)) for log_ratio in errors)
                rows.append(
                    (
                        name,
                        architecture,
                        str(len(errors)),
                        percent(error),
                        percent(math.expm1(statistics.median(errors))),
                    )
                )
    about = (
        "Test strategies by the transport of most of their gradients' bytes. *Leaning*: median of predicted divided by "
        "measured seconds, minus 1; above 0, the simulator predicts too long times for this architecture."
    )
    header = ("simulator", "architecture", "strategies", "MAPE", "leaning")
    return TextTable("accuracy_by_architecture", "By architecture", about, header, rows)


def by_cell_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of pairwise accuracy by cell."""
    known = [name for name in findings.simulators if findings.predictions(PredictionKey("accuracy", name))]
    rows = []
    for cell in findings.cells:
        row, apart = [cell.name], 0
        for name in known:
            by_seed = findings.predictions(PredictionKey("accuracy", name))[cell.name]
            apart = (
                np.count_nonzero(order_beyond_noise(by_seed[0])) // 2
            )  # depends on measured times only, so it is the same for all seeds and simulators
            row.append(f"{mean_of(pairwise_beyond_noise, by_seed):.3f}")
        rows.append((*row, str(apart)))
    about = (
        "Pairwise accuracy on each cell's test strategies, mean over seeds. *Pairs*: the number of pairs that differ "
        "beyond the noise; with few pairs the accuracy is uncertain, although all means over cells weigh cells equally."
    )
    header = ("model@cluster", *known, "pairs")
    return TextTable("accuracy_by_cell", "By cell", about, header, rows if known else [])


def worst_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of the test strategies with the largest errors of the best simulator."""
    best = findings.best()
    points = findings.points(PredictionKey("accuracy", best)) if best else []
    rows = []
    for point in sorted(points, key=lambda point: -abs(_log_error(point)))[:WORST]:
        record = point.measurement.trials[0]
        rows.append(
            (
                point.cell.name,
                record.label,
                summary_of(record.strategy, record.model),
                f"{1e3 * point.measurement.seconds:.1f}",
                f"{1e3 * math.exp(point.predicted):.1f}",
                f"{math.exp(_log_error(point)):.2f}",
                str(len(point.measurement.trials)),
                point.measurement.digest,
            )
        )
    about = (
        f"The {WORST} test strategies with the largest errors of the best simulator ({best or 'none yet'}), by the "
        "ratio of predicted and measured seconds."
    )
    header = ("model@cluster", "label", "strategy", "measured ms", "predicted ms", "ratio", "trials", "digest")
    return TextTable("worst", "Largest errors", about, header, rows)


def speed_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of the time to fit and the prediction rate of each simulator."""
    rows = []
    for name in findings.simulators:
        results = findings.speed(name)
        if results:
            rates = [result.candidates_per_second or math.nan for result in results]
            rows.append(
                (
                    name,
                    str(results[0].fit_records),
                    f"{statistics.median(result.fit_seconds for result in results):.2f}",
                    f"{statistics.median(rates):.0f} [{min(rates):.0f}, {max(rates):.0f}]",
                    str(len(results)),
                )
            )
    about = (
        "Processor seconds of this process to fit the records, and strategies scored per second in one batch of "
        f"{findings.settings.speed_candidates}; medians, minima and maxima. The batch repeats the cell's strategies, "
        "so nearly all decisions on variables are in the caches; new strategies take longer. *drafted*: as in a "
        f"search, the closed form ranks all candidates, and the simulator evaluates the {VERIFIED} most promising ones."
    )
    header = ("simulator", "records", "seconds to fit", "candidates a second", "times measured (median)")
    return TextTable("speed", "Speed", about, header, rows)


def ar_topk_table(findings: EvaluationFindings) -> TextTable:
    """Return the table that compares published times of AR-Topk with the replay's."""
    del findings
    rows = []
    for case in ar_topk.PUBLISHED:
        predicted = ar_topk.predict_milliseconds(case)
        pairs = [f"{a:.4g} / {b:.4g}" for a, b in zip(case.milliseconds, predicted, strict=True)]
        winner, predicted_winner = (
            ar_topk.COLLECTIVES[milliseconds.index(min(milliseconds))]
            for milliseconds in (case.milliseconds, predicted)
        )
        rows.append((case.model, f"{case.gbit_per_s:g}", f"{case.ratio:g}", *pairs, winner, predicted_winner))
    about = (
        "Milliseconds of compressed exchanges between eight workers with a latency of 1 ms: published / replayed "
        f"(AR-Topk, Table VI). {ar_topk.winners_right()} of {len(ar_topk.PUBLISHED)} winners are right; the median "
        f"error is {percent(ar_topk.median_error())}. No parameter is fitted."
    )
    header = ("model", "Gbit/s", "ratio", *ar_topk.COLLECTIVES, "fastest", "predicted fastest")
    return TextTable("ar_topk", "The published cost table of AR-Topk", about, header, rows)


def dataset_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of the records: counts, drift and noise of each cell."""
    rows = []
    for cell in findings.cells:
        first, second = cell.repeats
        agreement = math.nan
        if len(first) > 1:
            agreement = float(pairwise_beyond_noise(second_look(first, second, cell.deviation)))
        times = sorted(measurement.seconds for measurement in cell.measurements)
        drifts = [drift for measurement in cell.measurements for drift in measurement.drifts]
        rows.append(
            (
                cell.name,
                " / ".join(str(len(cell.part(part))) for part in ("train", "validation", "test")),
                str(sum(len(measurement.trials) for measurement in cell.measurements)),
                str(len(first)),
                percent(max(drifts) - min(drifts)),
                percent(cell.deviation),
                NOTHING if math.isnan(agreement) else f"{agreement:.3f}",
                " / ".join(f"{1e3 * seconds:.0f}" for seconds in (times[0], statistics.median(times), times[-1])),
            )
        )
    about = (
        "Strategies by part, all their trials, and the largest drift of the machine between two occasions, for which "
        "all times are corrected. From the strategies timed twice: the standard deviation of one trial's median, and "
        "the share of pairs distinguished by the first trials that the second trials put in the same order. "
        "Milliseconds a step: fastest, median and slowest strategy."
    )
    header = ("model@cluster", "train / val. / test", "trials", "twice", "drift", "noise", "repeats agree", "ms a step")
    return TextTable("dataset", "Records", about, header, rows)


DETAILS: Sequence[Callable[[EvaluationFindings], TextTable]] = (
    by_architecture_table,
    by_cell_table,
    near_top_table,
    worst_table,
    speed_table,
    ar_topk_table,
    dataset_table,
)
"""The detailed tables, in the order of the report."""


def _log_error(point: PredictedPoint) -> float:
    return point.predicted - math.log(point.measurement.seconds)

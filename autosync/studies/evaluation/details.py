"""The evaluation's finer tables: by cell and architecture, where it errs most, how fast it is, what it was given."""

import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from autosync.cost.composed import VERIFIED
from autosync.stats.tables import NOTHING, Table, percent
from autosync.studies.evaluation import ar_topk
from autosync.studies.evaluation.findings import EvaluationFindings, PredictedPoint, Subject
from autosync.studies.evaluation.metrics import mean_of, pairwise_beyond_noise, second_look, told_apart
from autosync.studies.evaluation.near_top import near_top_table
from autosync.words.strategy import ARCHITECTURES, summary_of

WORST = 20


def by_architecture_table(findings: EvaluationFindings) -> Table:
    rows = []
    for name in findings.simulators:
        points = findings.points(Subject("accuracy", name))
        for architecture in ARCHITECTURES:
            off = [_off(each) for each in points if each.measurement.architecture == architecture]
            if off:
                error = statistics.fmean(abs(math.expm1(each)) for each in off)
                rows.append(
                    (name, architecture, str(len(off)), percent(error), percent(math.expm1(statistics.median(off))))
                )
    about = (
        "Test strategies by how most of their gradients' bytes travel. *Leaning*: predicted over measured seconds, "
        "less 1 (median): above 0, strategies of this kind are thought slower than they are."
    )
    header = ("simulator", "architecture", "strategies", "MAPE", "leaning")
    return Table("accuracy_by_architecture", "By architecture", about, header, rows)


def by_cell_table(findings: EvaluationFindings) -> Table:
    known = [name for name in findings.simulators if findings.predictions(Subject("accuracy", name))]
    rows = []
    for cell in findings.cells:
        row, apart = [cell.name], 0
        for name in known:
            by_seed = findings.predictions(Subject("accuracy", name))[cell.name]
            apart = np.count_nonzero(told_apart(by_seed[0])) // 2  # of times alone: the same for all
            row.append(f"{mean_of(pairwise_beyond_noise, by_seed):.3f}")
        rows.append((*row, str(apart)))
    about = (
        "Pairwise accuracy on each cell's test strategies, mean over seeds. *Pairs*: so many differ beyond the noise; "
        "where those are few, accuracy says little, and yet all means over cells count every cell alike."
    )
    header = ("model@cluster", *known, "pairs")
    return Table("accuracy_by_cell", "By cell", about, header, rows if known else [])


def worst_table(findings: EvaluationFindings) -> Table:
    best = findings.best()
    points = findings.points(Subject("accuracy", best)) if best else []
    rows = []
    for point in sorted(points, key=lambda each: -abs(_off(each)))[:WORST]:
        record = point.measurement.trials[0]
        rows.append(
            (
                point.cell.name,
                record.label,
                summary_of(record.strategy, record.model),
                f"{1e3 * point.measurement.seconds:.1f}",
                f"{1e3 * math.exp(point.predicted):.1f}",
                f"{math.exp(_off(point)):.2f}",
                str(len(point.measurement.trials)),
                point.measurement.digest,
            )
        )
    about = (
        f"The {WORST} test strategies that the best simulator ({best or 'none yet'}) errs most about, by the ratio of "
        "predicted and measured seconds."
    )
    header = ("model@cluster", "label", "strategy", "measured ms", "predicted ms", "ratio", "trials", "digest")
    return Table("worst", "Where it errs most", about, header, rows)


def speed_table(findings: EvaluationFindings) -> Table:
    rows = []
    for name in findings.simulators:
        results = findings.speed(name)
        if results:
            rates = [each.candidates_per_second or math.nan for each in results]
            rows.append(
                (
                    name,
                    str(results[0].fit_records),
                    f"{statistics.median(each.fit_seconds for each in results):.2f}",
                    f"{statistics.median(rates):.0f} [{min(rates):.0f}, {max(rates):.0f}]",
                    str(len(results)),
                )
            )
    about = (
        "Processor seconds of this process to fit so many records, and strategies scored a second in one batch of "
        f"{findings.settings.speed_candidates}; medians, and the least and the most. The strategies are the cell's "
        "own, over and over, so that nearly all decisions on variables were met before; new ones take longer. "
        f"*drafted*: as a search has it, the closed form drafts, and the {VERIFIED} that promise most are verified."
    )
    header = ("simulator", "records", "seconds to fit", "candidates a second", "times measured (median)")
    return Table("speed", "Speed", about, header, rows)


def ar_topk_table(findings: EvaluationFindings) -> Table:
    del findings
    rows = []
    for case in ar_topk.PUBLISHED:
        found = ar_topk.predicted_milliseconds(case)
        pairs = [f"{a:.4g} / {b:.4g}" for a, b in zip(case.milliseconds, found, strict=True)]
        winner, thought = (ar_topk.COLLECTIVES[each.index(min(each))] for each in (case.milliseconds, found))
        rows.append((case.model, f"{case.gbit_per_s:g}", f"{case.ratio:g}", *pairs, winner, thought))
    about = (
        "Milliseconds of compressed exchanges between eight workers, 1 ms apart: published / replayed (AR-Topk, Table "
        f"VI). {ar_topk.winners_right()} of {len(ar_topk.PUBLISHED)} winners are right; the median error is "
        f"{percent(ar_topk.median_error())}. Nothing is fitted."
    )
    header = ("model", "Gbit/s", "ratio", *ar_topk.COLLECTIVES, "fastest", "predicted fastest")
    return Table("ar_topk", "The published cost table of AR-Topk", about, header, rows)


def dataset_table(findings: EvaluationFindings) -> Table:
    rows = []
    for cell in findings.cells:
        first, second = cell.repeats
        agreement = math.nan
        if len(first) > 1:
            agreement = float(pairwise_beyond_noise(second_look(first, second, cell.deviation)))
        times = sorted(each.seconds for each in cell.measurements)
        drifts = [drift for each in cell.measurements for drift in each.drifts]
        rows.append(
            (
                cell.name,
                " / ".join(str(len(cell.part(part))) for part in ("train", "validation", "test")),
                str(sum(len(each.trials) for each in cell.measurements)),
                str(len(first)),
                percent(max(drifts) - min(drifts)),
                percent(cell.deviation),
                NOTHING if math.isnan(agreement) else f"{agreement:.3f}",
                " / ".join(f"{1e3 * each:.0f}" for each in (times[0], statistics.median(times), times[-1])),
            )
        )
    about = (
        "Strategies by part, all their trials, and how far the machine drifted between two occasions at most, which "
        "is taken off all times. What strategies timed twice tell: the standard deviation of one trial's median, "
        "and the share of pairs told apart by the first trials that the second ones put in the same order. "
        "Milliseconds a step: fastest, median and slowest strategy."
    )
    header = ("model@cluster", "train / val. / test", "trials", "twice", "drift", "noise", "repeats agree", "ms a step")
    return Table("dataset", "Records", about, header, rows)


DETAILS: Sequence[Callable[[EvaluationFindings], Table]] = (
    by_architecture_table,
    by_cell_table,
    near_top_table,
    worst_table,
    speed_table,
    ar_topk_table,
    dataset_table,
)
"""The finer tables, in the order of the report."""


def _off(point: PredictedPoint) -> float:
    return point.predicted - math.log(point.measurement.seconds)

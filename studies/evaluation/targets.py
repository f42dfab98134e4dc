"""The targets for simulators, and the values that the simulators reach."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from autosync.pretraining.metrics import best_possible_error, mean_of, pairwise_beyond_noise
from autosync.stats.tables import NOTHING, TextTable, percent
from studies.evaluation import ar_topk
from studies.evaluation.findings import EvaluationFindings, PredictionKey, Scores, second_looks

PAIRWISE, OF_THE_WORST, FROM_CEILING = 0.90, 0.80, 0.03
PEAK, FROM_PEAK = 0.92, 0.02
ERROR_BEYOND_NOISE = 0.03
REPLAY_PAIRWISE = 0.85
UNSEEN = (("unseen-cluster", 0, 0.88), ("unseen-model", 0, 0.85))
AR_TOPK_ERROR = 0.03


@dataclass(frozen=True)
class EvaluationTarget:
    """A target, with texts for the report."""

    what: str
    wanted: str
    found: str
    met: bool | None
    """Whether the target is met; None without a result."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def targets(findings: EvaluationFindings) -> Iterator[EvaluationTarget]:
    """Yield each target with its result, for the first simulator unless the target names another one.

    Choosing the simulator that is best on the test strategies would bias the result.
    """
    judged, look = findings.simulators[0], findings.second_look()
    scores = findings.scores(PredictionKey("accuracy", judged))
    yield _near_ceiling(
        f"pairwise accuracy of {judged}, unseen strategies", "pairwise", (PAIRWISE, FROM_CEILING), scores, look
    )
    yield _worst_cell(judged, findings)
    yield _near_ceiling(f"peak@1 of {judged}, unseen strategies", "peak_at_1", (PEAK, FROM_PEAK), scores, look)
    yield _error(judged, scores, look)
    replay = findings.scores(PredictionKey("accuracy", "replay")) if "replay" in findings.simulators else None
    yield _at_least("pairwise accuracy of the replay alone", REPLAY_PAIRWISE, replay, "pairwise")
    for experiment, shots, wanted in UNSEEN:
        scores = findings.scores(PredictionKey(experiment, judged, size=shots), targets_only=shots > 0)
        what = f"pairwise accuracy of {judged}, {experiment.replace('-', ' ')}, {shots}-shot"
        yield _at_least(what, wanted, scores, "pairwise")
    right, error = ar_topk.winners_right(), ar_topk.median_error()
    yield EvaluationTarget(
        "AR-Topk's cost table by the replay",
        f"every winner, median error at most {percent(AR_TOPK_ERROR)}",
        f"{right} of {len(ar_topk.PUBLISHED)} winners, {percent(error)}",
        right == len(ar_topk.PUBLISHED) and error <= AR_TOPK_ERROR,
    )


def targets_table(findings: EvaluationFindings) -> TextTable:
    """Return the table of targets."""
    answer = {True: "yes", False: "no", None: NOTHING}
    rows = [(target.what, target.wanted, target.found, answer[target.met]) for target in targets(findings)]
    about = (
        f"The targets are compared with point estimates of {findings.simulators[0]}, the kind that ships with the "
        "program, rather than of the simulator that is best on these tests; the intervals are in the tables below. The "
        "estimates are means over simulators fitted here, one per seed; the scores of the shipped checkpoint are on "
        "its card."
    )
    return TextTable("targets", "Targets", about, ("what", "wanted", "found", "met"), rows)


def _near_ceiling(
    what: str, name: str, wanted: tuple[float, float], scores: Scores | None, look: Scores | None
) -> EvaluationTarget:
    """Return a target that needs a least value of a metric, or at most a given distance below a second trial's
    value."""
    least, from_ceiling = wanted
    ceiling, condition = math.inf, f"at least {least:.2f}"
    if look is not None and math.isfinite(look[name].value):
        ceiling = look[name].value
        condition += f", or at most {from_ceiling} under a second trial's {ceiling:.3f}"
    if scores is None:
        return EvaluationTarget(what, condition, NOTHING, None)
    value = scores[name].value
    return EvaluationTarget(what, condition, f"{value:.3f}", value >= min(least, ceiling - from_ceiling))


def _worst_cell(judged: str, findings: EvaluationFindings) -> EvaluationTarget:
    """Return the target for the cell that is furthest below its requirement."""
    what, wanted = f"pairwise accuracy of {judged}, the worst cell", f"at least {OF_THE_WORST:.2f}"
    wanted += f", or at most {FROM_CEILING} under its second trials'"
    by_cell = findings.predictions(PredictionKey("accuracy", judged))
    margins = []
    for cell in findings.cells:
        value = mean_of(pairwise_beyond_noise, by_cell.get(cell.name, ()))
        ceiling = mean_of(pairwise_beyond_noise, second_looks(cell))
        if math.isfinite(value):
            least = min(OF_THE_WORST, ceiling - FROM_CEILING) if math.isfinite(ceiling) else OF_THE_WORST
            margins.append((value - least, cell.name, value))
    if not margins:
        return EvaluationTarget(what, wanted, NOTHING, None)
    beyond, name, value = min(margins)
    return EvaluationTarget(what, wanted, f"{value:.3f} ({name})", beyond >= 0)


def _error(judged: str, scores: Scores | None, look: Scores | None) -> EvaluationTarget:
    what = f"MAPE of {judged}, unseen strategies"
    noise = best_possible_error(look["mape"].value) if look else 0.0
    known = f"the noise of {percent(noise)}" if look else "the noise, which is unknown without repeats"
    wanted = f"at most {percent(ERROR_BEYOND_NOISE)} beyond {known}"
    if scores is None:
        return EvaluationTarget(what, wanted, NOTHING, None)
    value = scores["mape"].value
    return EvaluationTarget(what, wanted, percent(value), value <= noise + ERROR_BEYOND_NOISE)


def _at_least(what: str, wanted: float, scores: Scores | None, name: str) -> EvaluationTarget:
    value = math.nan if scores is None else scores[name].value
    if not math.isfinite(value):
        return EvaluationTarget(what, f"at least {wanted:.2f}", NOTHING, None)
    return EvaluationTarget(what, f"at least {wanted:.2f}", f"{value:.3f}", value >= wanted)

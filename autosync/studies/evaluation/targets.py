"""The targets that simulators should reach, and what they do reach."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from autosync.stats.tables import NOTHING, Table, percent
from autosync.studies.evaluation import ar_topk
from autosync.studies.evaluation.findings import EvaluationFindings, Scores, Subject, second_looks
from autosync.studies.evaluation.metrics import best_possible_error, mean_of, pairwise_beyond_noise

PAIRWISE, OF_THE_WORST, FROM_CEILING = 0.90, 0.80, 0.03
PEAK, FROM_PEAK = 0.92, 0.02
ERROR_BEYOND_NOISE = 0.03
REPLAY_PAIRWISE = 0.85
UNSEEN = (("unseen-cluster", 0, 0.88), ("unseen-model", 0, 0.85))
AR_TOPK_ERROR = 0.03


@dataclass(frozen=True)
class Target:
    """A target; `met` is None while there is no result."""

    what: str
    wanted: str
    found: str
    met: bool | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def targets(findings: EvaluationFindings) -> Iterator[Target]:
    """Hold each target against the first simulator, unless it names another.

    To take whichever is best on the tests would be to learn from them.
    """
    judged, look = findings.simulators[0], findings.second_look()
    scores = findings.scores(Subject("accuracy", judged))
    yield _near_ceiling(
        f"pairwise accuracy of {judged}, unseen strategies", "pairwise", (PAIRWISE, FROM_CEILING), scores, look
    )
    yield _worst_cell(judged, findings)
    yield _near_ceiling(f"peak@1 of {judged}, unseen strategies", "peak_at_1", (PEAK, FROM_PEAK), scores, look)
    yield _error(judged, scores, look)
    replay = findings.scores(Subject("accuracy", "replay")) if "replay" in findings.simulators else None
    yield _at_least("pairwise accuracy of the replay alone", REPLAY_PAIRWISE, replay, "pairwise")
    for experiment, shots, wanted in UNSEEN:
        scores = findings.scores(Subject(experiment, judged, size=shots), targets_only=shots > 0)
        what = f"pairwise accuracy of {judged}, {experiment.replace('-', ' ')}, {shots}-shot"
        yield _at_least(what, wanted, scores, "pairwise")
    right, error = ar_topk.winners_right(), ar_topk.median_error()
    yield Target(
        "AR-Topk's cost table by the replay",
        f"every winner, median error at most {percent(AR_TOPK_ERROR)}",
        f"{right} of {len(ar_topk.PUBLISHED)} winners, {percent(error)}",
        right == len(ar_topk.PUBLISHED) and error <= AR_TOPK_ERROR,
    )


def targets_table(findings: EvaluationFindings) -> Table:
    answer = {True: "yes", False: "no", None: NOTHING}
    rows = [(each.what, each.wanted, each.found, answer[each.met]) for each in targets(findings)]
    about = (
        f"Point estimates of {findings.simulators[0]}, the kind that comes with the program, are held against the "
        "targets, not those of whichever simulator is best on these tests; the intervals are in the tables below. They "
        "are means over simulators fitted here, one a seed; what the shipped checkpoint itself reaches is on its card."
    )
    return Table("targets", "Targets", about, ("what", "wanted", "found", "met"), rows)


def _near_ceiling(
    what: str, name: str, wanted: tuple[float, float], scores: Scores | None, look: Scores | None
) -> Target:
    """So much of a metric, or at most so far under a second trial's."""
    least, from_ceiling = wanted
    ceiling, said = math.inf, f"at least {least:.2f}"
    if look is not None and math.isfinite(look[name].value):
        ceiling = look[name].value
        said += f", or at most {from_ceiling} under a second trial's {ceiling:.3f}"
    if scores is None:
        return Target(what, said, NOTHING, None)
    value = scores[name].value
    return Target(what, said, f"{value:.3f}", value >= min(least, ceiling - from_ceiling))


def _worst_cell(judged: str, findings: EvaluationFindings) -> Target:
    """The cell that is furthest under what is wanted of each."""
    what, wanted = f"pairwise accuracy of {judged}, the worst cell", f"at least {OF_THE_WORST:.2f}"
    wanted += f", or at most {FROM_CEILING} under its second trials'"
    by_cell = findings.predictions(Subject("accuracy", judged))
    told = []
    for cell in findings.cells:
        value = mean_of(pairwise_beyond_noise, by_cell.get(cell.name, ()))
        ceiling = mean_of(pairwise_beyond_noise, second_looks(cell))
        if math.isfinite(value):
            least = min(OF_THE_WORST, ceiling - FROM_CEILING) if math.isfinite(ceiling) else OF_THE_WORST
            told.append((value - least, cell.name, value))
    if not told:
        return Target(what, wanted, NOTHING, None)
    beyond, name, value = min(told)
    return Target(what, wanted, f"{value:.3f} ({name})", beyond >= 0)


def _error(judged: str, scores: Scores | None, look: Scores | None) -> Target:
    what = f"MAPE of {judged}, unseen strategies"
    noise = best_possible_error(look["mape"].value) if look else 0.0
    known = f"the noise of {percent(noise)}" if look else "the noise, which no repeats tell of"
    wanted = f"at most {percent(ERROR_BEYOND_NOISE)} beyond {known}"
    if scores is None:
        return Target(what, wanted, NOTHING, None)
    value = scores["mape"].value
    return Target(what, wanted, percent(value), value <= noise + ERROR_BEYOND_NOISE)


def _at_least(what: str, wanted: float, scores: Scores | None, name: str) -> Target:
    value = math.nan if scores is None else scores[name].value
    if not math.isfinite(value):
        return Target(what, f"at least {wanted:.2f}", NOTHING, None)
    return Target(what, f"at least {wanted:.2f}", f"{value:.3f}", value >= wanted)

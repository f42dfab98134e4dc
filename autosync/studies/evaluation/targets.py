"""The targets that simulators should reach, and what they do reach."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from autosync.stats.tables import NOTHING, Table, percent
from autosync.studies.evaluation import ar_topk
from autosync.studies.evaluation.findings import EvaluationFindings, Scores, Subject
from autosync.studies.evaluation.metrics import best_possible_error

PAIRWISE, FROM_CEILING, PEAK, ERROR_BEYOND_NOISE = 0.90, 0.02, 0.92, 0.05
REPLAY_PAIRWISE = 0.85
UNSEEN = (("unseen-cluster", 0, 0.85), ("unseen-cluster", 10, 0.88), ("unseen-model", 0, 0.80))
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
    yield _pairwise(judged, scores, look)
    yield _at_least(f"peak@1 of {judged}, unseen strategies", PEAK, scores, "peak_at_1")
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


def _pairwise(judged: str, scores: Scores | None, look: Scores | None) -> Target:
    what = f"pairwise accuracy of {judged}, unseen strategies"
    ceiling, wanted = math.inf, f"at least {PAIRWISE:.2f}"
    if look is not None and math.isfinite(look["pairwise"].value):
        ceiling = look["pairwise"].value
        wanted += f", or at most {FROM_CEILING} under a second trial's {ceiling:.3f}"
    if scores is None:
        return Target(what, wanted, NOTHING, None)
    value = scores["pairwise"].value
    return Target(what, wanted, f"{value:.3f}", value >= PAIRWISE or value >= ceiling - FROM_CEILING)


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

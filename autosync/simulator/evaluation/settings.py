"""What an evaluation does: which experiments, simulators, seeds and sizes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ABLATIONS", "AS_IT_IS", "EXPERIMENTS", "EvaluationSettings", "quick"]

EXPERIMENTS = ("accuracy", "unseen-cluster", "unseen-model", "unseen-both", "learning-curve", "ablations", "speed")

AS_IT_IS = "as it is"
ABLATIONS = ("shuffled order", "without replay", "without topology")


@dataclass(frozen=True)
class EvaluationSettings:
    """How much an evaluation does.

    `shots` are records of the unseen cell that a simulator is adjusted to; `curve` the records of a cell that are
    fitted alone; `most_records` bounds what is fitted elsewhere, None is all; `most_targets` the cells that shots and
    curves are about; `resamples` the bootstrap's.
    """

    seeds: int = 5
    shots: tuple[int, ...] = (0, 10, 50)
    curve: tuple[int, ...] = (10, 25, 50, 100, 150)
    most_records: int | None = None
    most_targets: int | None = None
    speed_records: int = 200
    speed_candidates: int = 10_000
    resamples: int = 500


def quick() -> EvaluationSettings:
    """Settings that take minutes in place of hours, with intervals as wide as that makes them."""
    return EvaluationSettings(
        seeds=2, shots=(0, 10), curve=(10, 50), most_records=150, most_targets=2, speed_candidates=500, resamples=200
    )

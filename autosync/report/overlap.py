"""The predicted overlap of communication and passes in words, with the exposed time that trials measured."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autosync.cost import Replay, StepOverlap
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.words.quantities import count_of, few_of, milliseconds

MOST_FITTED = 12
"""The maximum number of records to which the replay is fitted for an explanation, because a fit to 160 takes long."""


@dataclass(frozen=True)
class OverlapPrediction:
    """The overlap of one strategy, as a replay that is fitted to a few records predicts it."""

    replay: Replay
    overlap: StepOverlap
    fitted: int
    """The number of records to which the replay is fitted."""


def predict_overlap(
    strategy: Strategy, model: ModelSpec, cluster: ClusterSpec, records: Sequence[RuntimeRecord]
) -> OverlapPrediction:
    """The predicted overlap. The replay is fitted to the strategy's own records first, then to the earliest others.

    Raises `SpecError` if the strategy does not fit.
    """
    timed = sorted(
        (record for record in records if record.timed), key=lambda record: record.strategy.digest != strategy.digest
    )
    replay, chosen = Replay(), timed[:MOST_FITTED]
    if chosen:
        replay.fit(chosen)
    return OverlapPrediction(replay, replay.overlap(model, cluster, strategy), len(chosen))


def overlap_lines(prediction: OverlapPrediction, strategy: Strategy, records: Sequence[RuntimeRecord]) -> Iterator[str]:
    """Lines on the hidden and the exposed communication of a step."""
    overlap = prediction.overlap
    by = f"fitted to {count_of(prediction.fitted, 'timed record')}" if prediction.fitted else "not fitted"
    yield (
        f"Predicted: communication is busy for {milliseconds(overlap.communication_seconds)} of a step of "
        f"{milliseconds(overlap.step_seconds)} (replay, {by})."
    )
    waits = strategy.overlap_next_forward
    before = f", {milliseconds(overlap.before_seconds)} before the forward pass" if overlap.before_seconds else ""
    yield (
        f"Hidden: {milliseconds(overlap.forward_seconds)} under the forward pass, "
        f"{milliseconds(overlap.backward_seconds)} under the backward pass. Exposed: "
        f"{milliseconds(overlap.after_seconds)} {'while the forward pass waits' if waits else 'after it'}{before}."
    )
    if overlap.last is not None:
        yield f"Ends last: {few_of(overlap.last.variables)}, {milliseconds(overlap.last.end)} after the step begins."
    measured = seconds_outside_passes(strategy, records)
    if measured:
        yield (
            f"Outside the slowest replica's passes: {milliseconds(overlap.outside_seconds)} predicted, "
            f"{milliseconds(statistics.median(measured), 'paced')} measured (median step minus its median passes, "
            f"{count_of(len(measured), 'trial')})."
        )


def seconds_outside_passes(strategy: Strategy, records: Sequence[RuntimeRecord]) -> list[float]:
    """The median step minus the median passes of the slowest replica, for each paced trial of the strategy."""
    return [
        record.median_seconds - max(record.pace.achieved_seconds)
        for record in records
        if record.strategy.digest == strategy.digest
        and record.timed
        and record.median_seconds is not None
        and record.pace is not None
        and record.pace.time == "paced"
    ]

"""A model and a record in words, beside a cluster."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from autosync.spec import RuntimeRecord, median_interval
from autosync.words.cluster import cluster_lines
from autosync.words.quantities import model_in_words

__all__ = ["cluster_lines", "model_in_words", "record_lines"]


def record_lines(record: RuntimeRecord) -> Iterator[str]:
    """What came of a trial and how sure it is; steps timed before a trial ended early are described as well."""
    yield f"Strategy {record.strategy.digest}: {record.outcome}"
    if record.reason:
        yield f"Reason: {record.reason}"
    yield f"Setup: {record.setup_seconds:.2f} s; the trial in all: {record.total_seconds:.2f} s"
    if record.step_seconds:
        warmup, wanted = record.protocol.warmup_steps, record.protocol.timed_steps
        yield f"Steps: {len(record.step_seconds)} of {wanted} timed, after {warmup} for warm-up"
        yield from _step_lines(record.step_seconds)
    if record.final_loss is not None:
        yield f"Last loss: {record.final_loss:.4g}"


def _step_lines(step_seconds: tuple[float, ...]) -> Iterator[str]:
    low, high = median_interval(step_seconds)
    yield f"Median: {_ms(statistics.median(step_seconds))}, 95 % interval {_ms(low)} to {_ms(high)} (order statistics)"
    spread = statistics.stdev(step_seconds) if len(step_seconds) > 1 else 0.0
    yield (
        f"Mean: {_ms(statistics.fmean(step_seconds))}, standard deviation {_ms(spread)}, "
        f"from {_ms(min(step_seconds))} to {_ms(max(step_seconds))}"
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"

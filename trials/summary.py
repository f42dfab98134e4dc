"""A model and a record in words, beside a cluster."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from autosync.spec import ModelSpec, RuntimeRecord
from trials.cluster.words import cluster_lines

__all__ = ["cluster_lines", "megabytes", "model_in_words", "record_lines"]


def megabytes(count: float) -> str:
    """Bytes as a person reads them, such as 4.77 MB or 812 B."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def model_in_words(model: ModelSpec) -> str:
    """Sizes of the model, openly."""
    parameters = sum(variable.elements for variable in model.variables)
    sparse = [variable for variable in model.variables if variable.sparse]
    text = (
        f"{model.name}: {parameters / 1e6:.3g} M parameters in {len(model.variables)} variables, "
        f"{megabytes(model.gradient_bytes)} of gradients a replica and step"
    )
    if sparse:
        rows = sum(variable.rows_per_step or 0 for variable in sparse)
        text += f" ({len(sparse)} sparse, {rows:.0f} rows touched)"
    return f"{text}; batch {model.batch_size} a replica; {model.optimizer.split(' ')[0]}."


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
    from autosync.search import median_interval  # SciPy, which takes a second to load

    low, high = median_interval(step_seconds)
    yield f"Median: {_ms(statistics.median(step_seconds))}, 95 % interval {_ms(low)} to {_ms(high)} (order statistics)"
    spread = statistics.stdev(step_seconds) if len(step_seconds) > 1 else 0.0
    yield (
        f"Mean: {_ms(statistics.fmean(step_seconds))}, standard deviation {_ms(spread)}, "
        f"from {_ms(min(step_seconds))} to {_ms(max(step_seconds))}"
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"

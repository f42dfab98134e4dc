"""Bytes, seconds, numbers of things and the sizes of a model in words."""

from collections.abc import Sequence

from autosync.spec import ModelSpec


def megabytes(count: float) -> str:
    """Bytes as a person reads them, such as 4.77 MB or 812 B."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def milliseconds(seconds: float | None, time: str = "real") -> str:
    """Seconds as 12.3 ms, or as 12.3 ms paced where their `time` is not that of real passes."""
    mark = "" if time == "real" else f" {time}"
    return "-" if seconds is None else f"{seconds * 1e3:.1f} ms{mark}"


def duration(seconds: float) -> str:
    """Seconds as 42 s, 3 min 10 s or 1 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


WIDEST = 1000.0
"""A speed-up that none reaches: an interval that goes beyond, as of two rounds, says no more than that."""


def speedups(interval: Sequence[float]) -> str:
    """An interval of speed-ups, as 1.08 to 1.31, or as 0.00 to over 1000 where it says nothing."""
    low, high = interval
    return f"{low:.2f} to {f'{high:.2f}' if high <= WIDEST else f'over {WIDEST:.0f}'}"


def counted(count: int, noun: str) -> str:
    """Things by their number, as 1 trial or 20 strategies."""
    plural = f"{noun[:-1]}ies" if noun.endswith("gy") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def few_of(names: Sequence[str], most: int = 3) -> str:
    """The first of `names`, at most so many, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def model_in_words(model: ModelSpec) -> str:
    """The sizes of the model, openly."""
    parameters = sum(variable.elements for variable in model.variables)
    sparse = [variable for variable in model.variables if variable.sparse]
    text = (
        f"{model.name}: {parameters / 1e6:.3g} M parameters in {len(model.variables)} variables, "
        f"{megabytes(model.gradient_bytes)} of gradients a replica and step"
    )
    if sparse:
        rows = sum(variable.rows_per_step or 0 for variable in sparse)
        text += f" ({len(sparse)} sparse, {rows:.0f} rows touched)"
    text = f"{text}; batch {model.batch_size} a replica; {model.optimizer.split(' ')[0]}"
    if (of := model.device_profile) is not None:
        versions = ", ".join(f"{name} {version}" for name, version in of.versions.items())
        text += f"; paced passes follow a profile of {of.device}, {of.precision}, {of.date} ({versions})"
    return f"{text}."

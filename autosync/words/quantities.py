"""Describes bytes, seconds, counts and the size of a model in words."""

from collections.abc import Sequence

from autosync.spec import ModelSpec


def megabytes(count: float) -> str:
    """Bytes with a unit, such as 4.77 MB or 812 B."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def milliseconds(seconds: float | None, time: str = "real") -> str:
    """Seconds as 12.3 ms, or as 12.3 ms paced if `time` is not *real*."""
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
"""A speed-up that no strategy reaches; the end of an interval beyond it, as from two rounds, is not shown."""


def speedups(interval: Sequence[float]) -> str:
    """An interval of speed-ups, such as 1.08 to 1.31, or 0.00 to over 1000 if it is uninformative."""
    low, high = interval
    return f"{low:.2f} to {f'{high:.2f}' if high <= WIDEST else f'over {WIDEST:.0f}'}"


def count_of(count: int, noun: str) -> str:
    """A number and its noun in singular or plural, such as 1 trial or 20 strategies."""
    plural = f"{noun[:-1]}ies" if noun.endswith("gy") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def few_of(names: Sequence[str], most: int = 3) -> str:
    """The first `most` of `names`, and the number of further names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def model_in_words(model: ModelSpec) -> str:
    """The size of the model, its batch and its optimizer, as a sentence."""
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
    if (profile := model.device_profile) is not None:
        versions = ", ".join(f"{name} {version}" for name, version in profile.versions.items())
        text += f"; paced passes follow a profile of {profile.device}, {profile.precision}, {profile.date} ({versions})"
    return f"{text}."

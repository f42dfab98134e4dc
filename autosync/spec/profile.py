"""Profiles of a step: durations of its passes and ready times of gradients, on this machine or on another device."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date as calendar_date
from functools import cached_property
from pathlib import Path

from autosync.errors import SpecError
from autosync.spec.codec import Noun
from autosync.spec.quoting import quote
from autosync.spec.reading import read_json

LONGEST_TEXT, MOST_VERSIONS, MOST_PASS_SECONDS = 255, 64, 3600.0


@dataclass(frozen=True)
class VariableUse(Noun, what="A use of a variable"):
    """An operation of the forward pass that reads a variable, one of several that read it."""

    variable: str
    read: float
    """Fraction of the forward pass before the operation."""
    ready: float
    """Fraction of the backward pass after which the operation's part of the variable's gradient is ready."""
    rows: float | None = None
    """Distinct rows that an embedding looks up, per replica and step; None for an operation on the whole variable."""

    def __post_init__(self) -> None:
        for fraction in (self.read, self.ready):
            if not 0 <= fraction <= 1:
                raise SpecError(
                    f"A use of variable {quote(self.variable)} is at a fraction from 0 to 1, not {quote(fraction)}."
                )
        if self.rows is not None and not 0 <= self.rows < math.inf:
            raise SpecError(
                f"A use of variable {quote(self.variable)} looks up 0 or more rows, not {quote(self.rows)}."
            )


@dataclass(frozen=True)
class ModelProfile(Noun, what="A profile"):
    """The profile of a model's step: core-seconds of a replica's forward and backward pass on a CPU."""

    forward_seconds: float
    backward_seconds: float
    ready: Mapping[str, float] = field(hash=False)
    """Per variable, the fraction of the backward pass, from 0 to 1, after which its gradient is ready."""
    read: Mapping[str, float] | None = field(default=None, hash=False)
    """Per variable, the fraction of the forward pass before its first read; None if it was not measured."""
    uses: tuple[VariableUse, ...] | None = None
    """The uses of each variable that an embedding looks up and another operation also reads (a tied table), in the
    order of the forward pass; None if no variable is used so."""

    def __post_init__(self) -> None:
        if not all(math.isfinite(seconds) and seconds > 0 for seconds in (self.forward_seconds, self.backward_seconds)):
            raise SpecError(
                "A profile's passes take positive seconds, not "
                f"{quote(self.forward_seconds)} and {quote(self.backward_seconds)}."
            )
        for word, times in (("ready", self.ready), ("read", self.read)):
            if times is None:
                continue
            for name, share in times.items():
                if not 0 <= share <= 1:
                    raise SpecError(f"Variable {quote(name)} is {word} at a fraction from 0 to 1, not {quote(share)}.")
            object.__setattr__(self, word, dict(times))


@dataclass(frozen=True)
class KeptProfile(Noun, what="A kept profile"):
    """The profile of a model's first capture, which later captures of the same model keep to."""

    model_digest: str
    profile: ModelProfile


@dataclass(frozen=True)
class DeviceProfile(Noun, what="A device profile"):
    """A replica's step as measured on another device, such as a GPU, for paced passes to follow."""

    device: str
    versions: Mapping[str, str] = field(hash=False)
    """Versions of the software of the measurement, by name."""
    batch_size: int
    precision: str
    """Precision of the computation."""
    date: str
    """Day of the measurement as YYYY-MM-DD."""
    forward_seconds: float
    backward_seconds: float
    ready_seconds: Mapping[str, float] = field(hash=False)
    """Per variable, seconds from the start of the backward pass until the gradient is ready."""
    read_seconds: Mapping[str, float] | None = field(default=None, hash=False)
    """Per variable, seconds from the start of the forward pass until its first read; None if it was not measured."""

    def __post_init__(self) -> None:
        named = {"device": self.device, "precision": self.precision}
        for what, text in (named | {f"version of {name}": text for name, text in self.versions.items()}).items():
            if not 0 < len(text) <= LONGEST_TEXT:
                raise SpecError(f"A device profile's {what} has 1 to {LONGEST_TEXT} characters, not {quote(text)}.")
        if not 0 < len(self.versions) <= MOST_VERSIONS or max(map(len, self.versions)) > LONGEST_TEXT:
            raise SpecError(
                f"A device profile has the versions of what it was measured with, 1 to {MOST_VERSIONS} with names of "
                f"at most {LONGEST_TEXT} characters, not {quote(dict(self.versions))}."
            )
        if not _is_day(self.date):
            raise SpecError(f"A device profile's date is a day like 2026-11-20, not {quote(self.date)}.")
        for what, seconds in (("forward", self.forward_seconds), ("backward", self.backward_seconds)):
            if not 0 < seconds <= MOST_PASS_SECONDS:
                raise SpecError(
                    f"A device profile's {what} pass takes over 0 and up to {MOST_PASS_SECONDS:g} seconds, not "
                    f"{quote(seconds)}."
                )
        for word, times, which, longest in (
            ("ready", self.ready_seconds, "backward", self.backward_seconds),
            ("read", self.read_seconds or {}, "forward", self.forward_seconds),
        ):
            for name, seconds in times.items():
                if not 0 <= seconds <= longest:
                    raise SpecError(
                        f"Variable {quote(name)} is {word} from 0 to {longest:g} seconds after the {which} pass of a "
                        f"device profile began, which takes that long, not {quote(seconds)}."
                    )

    @cached_property
    def as_fractions(self) -> ModelProfile:
        """The same profile with ready and read times as fractions of their passes."""
        ready = {name: seconds / self.backward_seconds for name, seconds in self.ready_seconds.items()}
        read = None
        if self.read_seconds is not None:
            read = {name: seconds / self.forward_seconds for name, seconds in self.read_seconds.items()}
        return ModelProfile(self.forward_seconds, self.backward_seconds, ready, read)

    def check_fits(self, model: str, batch_size: int, variables: Collection[str]) -> None:
        """Raise `SpecError` if the profile was measured with other variables or another batch size than `model` has."""
        fault = ""
        if self.batch_size != batch_size:
            fault = f"it was measured with batches of {quote(self.batch_size)}, and the model takes {batch_size}"
        elif missing := [name for name in variables if name not in self.ready_seconds]:
            fault = f"it does not say when {quote(missing[0])} is ready"
        elif self.read_seconds is not None and self.read_seconds.keys() != self.ready_seconds.keys():
            fault = "it says of other variables when they are read than when they are ready"
        elif unknown := sorted(self.ready_seconds.keys() - set(variables)):
            fault = f"the model has no variable {quote(unknown[0])}"
        if fault:
            raise SpecError(
                f"The profile of {quote(self.device)} does not fit model {quote(model)}: {fault}; measure this model."
            )


def read_device_profile(file: Path) -> DeviceProfile:
    """The device profile in the JSON file `file`. Raises `SpecError`."""
    what = f"Profile {str(file)!r}"
    try:
        return DeviceProfile.from_json(read_json(file, what))
    except OSError as error:
        raise SpecError(f"{what} cannot be read: {error.strerror}; name a file.") from None


def _is_day(text: str) -> bool:
    try:
        return calendar_date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False

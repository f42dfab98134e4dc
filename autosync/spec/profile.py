"""The profile of a step: what its passes take, and when gradients are ready, here or on a device elsewhere."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date as calendar_date
from functools import cached_property
from pathlib import Path

from autosync.errors import SpecError
from autosync.spec.codec import Noun
from autosync.spec.quoting import quoted
from autosync.spec.reading import read_json

LONGEST_TEXT, MOST_VERSIONS, MOST_PASS_SECONDS = 255, 64, 3600.0


@dataclass(frozen=True)
class ModelProfile(Noun, what="A profile"):
    """A profiled step of one model: core-seconds that one replica's forward and backward pass take on a CPU.

    `ready` is for every variable the fraction of the backward pass after which its gradient is there, from 0 to 1.
    """

    forward_seconds: float
    backward_seconds: float
    ready: Mapping[str, float] = field(hash=False)

    def __post_init__(self) -> None:
        if not all(math.isfinite(each) and each > 0 for each in (self.forward_seconds, self.backward_seconds)):
            raise SpecError(
                "A profile's passes take positive seconds, not "
                f"{quoted(self.forward_seconds)} and {quoted(self.backward_seconds)}."
            )
        for name, fraction in self.ready.items():
            if not 0 <= fraction <= 1:
                raise SpecError(f"Variable {quoted(name)} is ready at a fraction from 0 to 1, not {quoted(fraction)}.")
        object.__setattr__(self, "ready", dict(self.ready))


@dataclass(frozen=True)
class DeviceProfile(Noun, what="A device profile"):
    """A step of one replica as it was measured on a device elsewhere, such as a GPU, for paced passes to follow.

    `ready_seconds` says of every variable how long after the backward pass began its gradient was there. `precision` is
    the one computed in, `date` the day of the measurement as YYYY-MM-DD, `versions` what it was measured with.
    """

    device: str
    versions: Mapping[str, str] = field(hash=False)
    batch_size: int
    precision: str
    date: str
    forward_seconds: float
    backward_seconds: float
    ready_seconds: Mapping[str, float] = field(hash=False)

    def __post_init__(self) -> None:
        named = {"device": self.device, "precision": self.precision}
        for what, text in (named | {f"version of {name}": each for name, each in self.versions.items()}).items():
            if not 0 < len(text) <= LONGEST_TEXT:
                raise SpecError(f"A device profile's {what} has 1 to {LONGEST_TEXT} characters, not {quoted(text)}.")
        if not 0 < len(self.versions) <= MOST_VERSIONS or max(map(len, self.versions)) > LONGEST_TEXT:
            raise SpecError(
                f"A device profile has the versions of what it was measured with, 1 to {MOST_VERSIONS} with names of "
                f"at most {LONGEST_TEXT} characters, not {quoted(dict(self.versions))}."
            )
        if not _is_day(self.date):
            raise SpecError(f"A device profile's date is a day like 2026-11-20, not {quoted(self.date)}.")
        for what, seconds in (("forward", self.forward_seconds), ("backward", self.backward_seconds)):
            if not 0 < seconds <= MOST_PASS_SECONDS:
                raise SpecError(
                    f"A device profile's {what} pass takes over 0 and up to {MOST_PASS_SECONDS:g} seconds, not "
                    f"{quoted(seconds)}."
                )
        for name, seconds in self.ready_seconds.items():
            if not 0 <= seconds <= self.backward_seconds:
                raise SpecError(
                    f"Variable {quoted(name)} is ready from 0 to {self.backward_seconds:g} seconds after the backward "
                    f"pass of a device profile began, which takes that long, not {quoted(seconds)}."
                )

    @cached_property
    def as_fractions(self) -> ModelProfile:
        """The same, with what is ready when in fractions of the backward pass."""
        ready = {name: seconds / self.backward_seconds for name, seconds in self.ready_seconds.items()}
        return ModelProfile(self.forward_seconds, self.backward_seconds, ready)

    def check_fits(self, model: str, batch_size: int, variables: Collection[str]) -> None:
        """Raise `SpecError` when this was measured with another batch size or of other variables than `model` has."""
        fault = ""
        if self.batch_size != batch_size:
            fault = f"it was measured with batches of {quoted(self.batch_size)}, and the model takes {batch_size}"
        elif missing := [name for name in variables if name not in self.ready_seconds]:
            fault = f"it does not say when {quoted(missing[0])} is ready"
        elif unknown := sorted(self.ready_seconds.keys() - set(variables)):
            fault = f"the model has no variable {quoted(unknown[0])}"
        if fault:
            raise SpecError(
                f"The profile of {quoted(self.device)} does not fit model {quoted(model)}: {fault}; measure this model."
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

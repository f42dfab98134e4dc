"""A pace as a cluster file states it, of a node, of a rack's nodes or of all nodes.

pace: {scale: 5, fixed: 20ms, numbers: held, spread: {lognormal: 0.05, slow: {probability: 0.1, dwell: 50, factor: 3}}}
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from autosync.errors import SpecError
from autosync.spec import Pace, Slow, Spread, quoted

CHECKED = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _seconds(value: Any) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)", value) if isinstance(value, str) else None
    if not found:
        raise ValueError(f"a time is written like 20ms or 1.5s, not {quoted(value)}.")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?(ms|s)$", "examples": ["20ms", "1.5s"]}),
]


class SlowEntry(BaseModel):
    """Spells in which a node is slow; those of a rack's pace come over all its nodes together."""

    model_config = CHECKED

    probability: float = Field(description="The share of steps that are in slow spells.")
    dwell: int = Field(description="Steps of a spell.")
    factor: float = Field(description="How many times as long a pass takes.")


class SpreadEntry(BaseModel):
    """How passes vary from step to step."""

    model_config = CHECKED

    lognormal: float = Field(default=0.0, description="Sigma of a log-normal jitter, whose median is 1.")
    slow: SlowEntry | None = Field(default=None, description="Slow spells.")
    trace: list[float] = Field(default_factory=list, description="Recorded factors, a step each, over and over.")


class PaceEntry(BaseModel):
    """How long a node's passes take: fixed, so long for a batch, and `scale` times what the model's profile says."""

    model_config = CHECKED

    scale: float | None = Field(None, description="Times the profile's seconds. Left out: 1, or 0 beside others.")
    fixed: Seconds = Field(0.0, description="Seconds of every pass, beside those by the profile.")
    numbers: Literal["recorded", "held"] = Field(
        "recorded", description="Gradients of real steps, replayed; or real ones, held until their time."
    )
    spread: SpreadEntry | None = Field(None, description="Left out: every pass takes the same.")
    stream: float | None = Field(None, description="Examples a second that come to each replica in training.")
    batch: Seconds = Field(0.0, description="Seconds of a batch's pass; of more or fewer examples in proportion.")

    @model_validator(mode="after")
    def _is_a_pace(self) -> PaceEntry:
        try:
            self.pace("")
        except SpecError as error:
            raise ValueError(str(error)) from None
        return self

    def pace(self, together: str) -> Pace:
        """The pace of nodes that are slow `together`, of each for itself if that is empty. Raises `SpecError`."""
        spread = self.spread or SpreadEntry()
        spells = spread.slow
        slow = None if spells is None else Slow(spells.probability, spells.dwell, spells.factor, together)
        scale = self.scale if self.scale is not None else 0.0 if self.fixed or self.batch else 1.0
        varied = Spread(spread.lognormal, slow, tuple(spread.trace))
        return Pace(scale, self.fixed, self.numbers, varied, self.stream, self.batch)

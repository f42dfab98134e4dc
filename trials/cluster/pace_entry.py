"""The `pace` section of a cluster file, for a node, a rack's nodes or all nodes.

pace: {scale: 5, fixed: 20ms, numbers: held, spread: {lognormal: 0.05, slow: {probability: 0.1, dwell: 50, factor: 3}}}
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from autosync.errors import SpecError
from autosync.spec import Pace, Slow, Spread, quote

CHECKED = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _seconds(value: Any) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)", value) if isinstance(value, str) else None
    if not match:
        raise ValueError(f"a time is written like 20ms or 1.5s, not {quote(value)}.")
    return float(match[1]) / (1000 if match[2] == "ms" else 1)


Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?(ms|s)$", "examples": ["20ms", "1.5s"]}),
]


class SlowEntry(BaseModel):
    """Slow spells of a node; spells of a rack's pace slow all its nodes together."""

    model_config = CHECKED

    probability: float = Field(description="The share of steps in slow spells.")
    dwell: int = Field(description="Steps of a spell.")
    factor: float = Field(description="How many times as long a pass takes.")


class SpreadEntry(BaseModel):
    """The variation of passes from step to step."""

    model_config = CHECKED

    lognormal: float = Field(default=0.0, description="Sigma of a log-normal jitter, whose median is 1.")
    slow: SlowEntry | None = Field(default=None, description="Slow spells.")
    trace: list[float] = Field(default_factory=list, description="Recorded factors, a step each, over and over.")


class PaceEntry(BaseModel):
    """The duration of a node's passes: a fixed time, a time for each batch, and `scale` times the model's profile."""

    model_config = CHECKED

    scale: float | None = Field(
        None, description="Factor on the profile's seconds. Left out: 1, or 0 with `fixed` or `batch`."
    )
    fixed: Seconds = Field(0.0, description="Seconds of every pass, in addition to the profile's.")
    numbers: Literal["recorded", "held"] = Field(
        "recorded", description="recorded: replay gradients of real steps; held: compute gradients and delay them."
    )
    spread: SpreadEntry | None = Field(None, description="Left out: every pass takes the same time.")
    stream: float | None = Field(None, description="Examples a second that arrive at each replica in training.")
    batch: Seconds = Field(0.0, description="Seconds of a batch's pass; in proportion for more or fewer examples.")

    @model_validator(mode="after")
    def _is_a_pace(self) -> PaceEntry:
        try:
            self.pace("")
        except SpecError as error:
            raise ValueError(str(error)) from None
        return self

    def pace(self, together: str) -> Pace:
        """Return the pace; nodes with the same nonempty `together` have slow spells together. Raises `SpecError`."""
        spread = self.spread or SpreadEntry()
        spells = spread.slow
        slow = None if spells is None else Slow(spells.probability, spells.dwell, spells.factor, together)
        scale = self.scale if self.scale is not None else 0.0 if self.fixed or self.batch else 1.0
        varied = Spread(spread.lognormal, slow, tuple(spread.trace))
        return Pace(scale, self.fixed, self.numbers, varied, self.stream, self.batch)

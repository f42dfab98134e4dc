"""What a search is asked to do, checked where it enters."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from autosync.engine.capture_apart import CAPTURE_SECONDS, MOST_CAPTURE_SECONDS
from autosync.errors import AutosyncError
from autosync.search.registry import SEARCHERS
from autosync.spec.address import Address, Place, absolute, place_of

CLOSED_FORMS = ("analytic", "replay")
SIMULATORS = ("auto", *CLOSED_FORMS, "linear", "rnn", "gat")
ON_NODE_LOSS = ("wait", "shrink")

EXCLUSIVE = (
    ("workers", "nodes_per_trial"),
    ("workers", "cluster"),
    ("address", "emulate"),
    ("cluster", "emulate"),
    ("workers", "emulate"),
    ("replay", "emulate"),
    ("replay", "cluster"),
    ("replay", "address"),
    ("replay", "workers"),
    ("replay", "space"),
    ("replay", "profile"),
)

OF_TIMING = (
    "warmup_steps",
    "timed_steps",
    "trial_time_limit_seconds",
    "stop_factor",
    "rounds",
    "counterfactuals",
    "tuned_all_reduce",
    "nodes_per_trial",
    "on_node_loss",
    "node_wait_seconds",
    "working_dir",
    "data",
    "capture_time_limit_seconds",
)
"""Options that say how trials are run and where they are kept; where no trial is run, none of them may be given."""

TRAINING_STEPS = 100_000
"""Steps that a model is trained for once the search is over, unless stated: about 90 epochs of a million examples in
batches of a thousand."""

LARGEST_SEED = 2**63 - 1
"""The largest seed, since records keep it in 64 bits."""


class OptionsError(AutosyncError, ValueError):
    """An option is out of range, or options contradict each other."""


def _place(given: Any) -> Any:
    return place_of(given) if isinstance(given, str) else given


RecordsPlace: TypeAlias = Annotated[Place, BeforeValidator(_place)]


class TuneOptions(BaseModel):
    """Options of one search. `create` checks them and says what is wrong in one sentence."""

    # Records and requests are JSON, which has no infinity; an option without a limit is left out instead.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: str = Field(min_length=1)
    trials: int = Field(200, ge=1)
    time_budget_seconds: float | None = Field(None, gt=0)
    workers: int | None = Field(None, ge=1)
    space: str | None = None
    without_rules: tuple[str, ...] = ()
    try_first: tuple[Path, ...] = ()
    searcher: str = Field("guided", pattern="|".join(f"^{name}$" for name in SEARCHERS))
    simulator: str = Field("auto", pattern="|".join(f"^{name}$" for name in SIMULATORS))
    warm_start: Path | None = None
    round_size: int | None = Field(None, ge=1)
    seed: int = Field(0, ge=0, le=LARGEST_SEED)
    out: Path
    data: RecordsPlace = Path("data")
    replay: RecordsPlace | None = None
    resume: bool = False
    warmup_steps: int = Field(10, ge=0)
    timed_steps: int = Field(40, ge=1)
    trial_time_limit_seconds: float = Field(300.0, gt=0)
    stop_factor: float = Field(1.25, gt=1)
    patience: int | None = Field(None, ge=1)
    training_steps: int = Field(TRAINING_STEPS, ge=1)
    rounds: int = Field(6, ge=1)
    counterfactuals: int = Field(0, ge=0)
    tuned_all_reduce: bool = False
    address: str | None = None
    cluster: Path | None = None
    profile: Path | None = None
    emulate: str | None = None
    or_local: bool = False
    nodes_per_trial: int | None = Field(None, ge=1)
    on_node_loss: str = Field("wait", pattern="|".join(f"^{name}$" for name in ON_NODE_LOSS))
    node_wait_seconds: float = Field(600.0, ge=0)
    probe: bool = True
    reprobe: bool = False
    working_dir: Path | None = None
    capture_time_limit_seconds: float = Field(CAPTURE_SECONDS, gt=0, le=MOST_CAPTURE_SECONDS)

    @classmethod
    def create(cls, **given: Any) -> TuneOptions:
        """Options from keyword arguments. Raises `OptionsError`."""
        try:
            options = cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            name = flag(str(first["loc"][0])) if first["loc"] else "options"
            rule = first["msg"].replace("Input should", "must").replace("String should", "must")
            if first["type"] == "string_pattern_mismatch":
                rule = f"must be one of {', '.join(re.findall(r'[a-z-]+', first['ctx']['pattern']))}"
            raise OptionsError(f"{name} {rule[0].lower() + rule[1:]}, not {first['input']!r}.") from None
        options._check_together()
        return options

    def _check_together(self) -> None:
        """Refuse options that contradict each other."""
        for one, other in EXCLUSIVE:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise OptionsError(f"{flag(one)} and {flag(other)} exclude each other; leave one of them out.")
        if self.replay is not None and (self.resume or self.without_rules or self.try_first):
            raise OptionsError(
                "--replay searches recorded trials and keeps nothing; leave --resume, --without-rule and --try-first "
                "out."
            )
        if self.round_size is not None and self.searcher != "guided":
            raise OptionsError(
                f"--round-size is for guided search, but --searcher {self.searcher} has no rounds; leave it out."
            )
        of_timing = [name for name in OF_TIMING if getattr(self, name) != type(self).model_fields[name].default]
        if self.replay is not None and of_timing:
            raise OptionsError(f"--replay times nothing; leave {' and '.join(map(flag, of_timing))} out.")
        if self.emulate is not None and isinstance(self.data, Address):
            raise OptionsError(
                "--emulate makes a cluster whose nodes reach nothing but each other, so --data is a folder."
            )
        if self.or_local and self.emulate is None:
            raise OptionsError("--or-local is for where no cluster can be emulated; it needs --emulate.")
        if self.reprobe and not (self.resume and self.probe):
            raise OptionsError("--reprobe measures the links of a run again; it needs --resume, and no --no-probe.")
        if self.warm_start is not None and (self.searcher != "guided" or self.simulator in CLOSED_FORMS):
            by = f"--searcher {self.searcher}" if self.searcher != "guided" else f"--simulator {self.simulator}"
            raise OptionsError(
                f"--warm-start is for a simulator that learns, but {by} has none; leave one of them out."
            )

    def identity(self) -> dict[str, Any]:
        """What a resumed search must share with the one it goes on from."""
        same = (
            "model",
            "workers",
            "nodes_per_trial",
            "cluster",
            "profile",
            "emulate",
            "space",
            "without_rules",
            "try_first",
            "searcher",
            "simulator",
            "warm_start",
            "round_size",
            "seed",
            "warmup_steps",
            "timed_steps",
        )
        chosen = {name: value for name, value in json.loads(self.model_dump_json()).items() if name in same}
        if self.warm_start is not None:
            chosen["warm_start"] = str(self.warm_start.resolve())
        return chosen | {"data": str(absolute(self.data))}


def flag(name: str) -> str:
    """How the option `name` is written on the command line, such as --steps for `timed_steps`."""
    short = {"warmup_steps": "warmup", "timed_steps": "steps", "without_rules": "without_rule"}
    return "--" + short.get(name, name.removesuffix("_seconds")).replace("_", "-")

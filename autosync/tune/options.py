"""The options of a search, checked when they enter the program."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from autosync.engine.core.registry import DEFAULT, ENGINES, name_in_records
from autosync.errors import AutosyncError, did_you_mean
from autosync.search.registry import SEARCHERS
from autosync.spec.address import Address, Place, absolute, place_of
from trials.capture_in_subprocess import CAPTURE_SECONDS, MOST_CAPTURE_SECONDS

CLOSED_FORMS = ("analytic", "replay")
SIMULATORS = ("auto", *CLOSED_FORMS, "linear", "rnn", "gat")
ON_NODE_LOSS = ("wait", "shrink")

EXCLUSIVE = (
    ("workers", "nodes_per_trial"),
    ("workers", "cluster"),
    ("address", "emulate"),
    ("cluster", "emulate"),
    ("workers", "emulate"),
)

TRAINING_STEPS = 100_000
"""Default for the number of training steps after the search: about 90 epochs of a million examples in batches of a
thousand."""

LARGEST_SEED = 2**63 - 1
"""The largest seed, since records keep it in 64 bits."""


class OptionsError(AutosyncError, ValueError):
    """An option is out of range, or options contradict each other."""


def _place(value: Any) -> Any:
    return place_of(value) if isinstance(value, str) else value


RecordsPlace: TypeAlias = Annotated[Place, BeforeValidator(_place)]


class TuneOptions(BaseModel):
    """Options of one search. `create` checks them, and describes an error in one sentence."""

    # Records and requests are JSON, which has no infinity; an option without a limit is left out instead.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: str = Field(min_length=1)
    framework: str | None = Field(None, pattern="|".join(f"^{name}$" for name in ENGINES))
    """The engine's name. None until the model is known: then a search fills it in."""
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
    python_path: Path | None = None
    """A folder that processes import the model from, before all others. For commands, the variable PYTHONPATH."""
    capture_time_limit_seconds: float = Field(CAPTURE_SECONDS, gt=0, le=MOST_CAPTURE_SECONDS)

    @classmethod
    def create(cls, **values: Any) -> TuneOptions:
        """Create options from keyword arguments. Raises `OptionsError`."""
        try:
            options = cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = flag(str(first["loc"][0])) if first["loc"] else "options"
            rule = first["msg"].replace("Input should", "must").replace("String should", "must")
            question = ""
            if first["type"] == "string_pattern_mismatch":
                known = re.findall(r"[a-z-]+", first["ctx"]["pattern"])
                rule, question = f"must be one of {', '.join(known)}", did_you_mean(first["input"], known)
            raise OptionsError(f"{name} {rule[0].lower() + rule[1:]}, not {first['input']!r}.{question}") from None
        options._check_together()
        return options

    def _check_together(self) -> None:
        """Refuse options that contradict each other."""
        for option, excluded in EXCLUSIVE:
            if getattr(self, option) is not None and getattr(self, excluded) is not None:
                raise OptionsError(f"{flag(option)} and {flag(excluded)} exclude each other; leave one of them out.")
        if self.round_size is not None and self.searcher != "guided":
            raise OptionsError(
                f"--round-size is for guided search, but --searcher {self.searcher} has no rounds; leave it out."
            )
        if self.emulate is not None and isinstance(self.data, Address):
            raise OptionsError(
                "--emulate makes a cluster whose nodes reach only each other, so --data must be a folder; name one."
            )
        if self.or_local and self.emulate is None:
            raise OptionsError("--or-local is the fallback of --emulate; add --emulate, or leave --or-local out.")
        if self.reprobe and not (self.resume and self.probe):
            raise OptionsError(
                "--reprobe measures the links of a resumed run again; add --resume, and leave --no-probe out."
            )
        if self.warm_start is not None and (self.searcher != "guided" or self.simulator in CLOSED_FORMS):
            by = f"--searcher {self.searcher}" if self.searcher != "guided" else f"--simulator {self.simulator}"
            raise OptionsError(f"--warm-start needs a simulator that learns, but {by} has none; leave one of them out.")

    @property
    def framework_or_default(self) -> str:
        """The name of the engine; that of Keras models if no framework is stated."""
        return self.framework or DEFAULT

    @property
    def framework_in_records(self) -> str | None:
        """The framework as the records of the search name it."""
        return name_in_records(self.framework_or_default)

    def identity(self) -> dict[str, Any]:
        """The options that a resumed search must share with the original search."""
        same = (
            "model",
            "framework",
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
        if self.framework_or_default == DEFAULT:  # runs of earlier versions do not name it
            del chosen["framework"]
        if self.warm_start is not None:
            chosen["warm_start"] = str(self.warm_start.resolve())
        return chosen | {"data": str(absolute(self.data))}

    def arguments(self) -> list[str]:
        """The options that differ from their defaults, as typed after `autosync tune`; without --resume."""
        words: list[str] = []
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in ("resume", "python_path") or value == field.default:
                continue
            if isinstance(value, bool):
                words.append(flag(name) if value else flag(name).replace("--", "--no-", 1))
                continue
            for part in value if isinstance(value, tuple) else (value,):
                words += [flag(name), str(part)]
        return words


def default_folder(model: str) -> Path:
    """The folder of a new search for `model`, named after the time."""
    return Path("runs") / f"{model.replace(':', '-').replace('/', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"


def flag(name: str) -> str:
    """The command-line form of the option `name`, such as --steps for `timed_steps`."""
    short = {"warmup_steps": "warmup", "timed_steps": "steps", "without_rules": "without_rule"}
    return "--" + short.get(name, name.removesuffix("_seconds")).replace("_", "-")

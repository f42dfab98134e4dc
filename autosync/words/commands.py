"""Commands to type next. They run as printed: each names the cluster on which the search or the race ran."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

DEFAULT_NAME = "net"
"""The name of the emulated cluster that `autosync emulate` uses unless `--name` is stated."""


def is_cluster_file(text: str) -> bool:
    """Whether `text` names a cluster file and not a star such as 4x200mbit."""
    return Path(text).suffix in (".yaml", ".yml")


@dataclass(frozen=True)
class RanOn:
    """The options that chose the cluster of a run; an option that was left out is None.

    `emulate` is the cluster that the run made for itself; `emulated_cluster` is the name of one that `autosync emulate`
    had made, and on whose head the command ran.
    """

    workers: int | None = None
    address: str | None = None
    cluster: str | None = None
    profile: str | None = None
    working_dir: str | None = None
    emulate: str | None = None
    emulated_cluster: str | None = None

    @classmethod
    def of(cls, *documents: Mapping[str, Any]) -> RanOn:
        """The options that JSON `documents` state; the last document that has an option counts."""
        merged: dict[str, Any] = {
            name: value
            for document in documents
            for name, value in document.items()
            if isinstance(value, str | int) and not isinstance(value, bool)
        }
        return cls(**{option.name: merged[option.name] for option in fields(cls) if option.name in merged})

    def to_json(self) -> dict[str, Any]:
        stated = {option.name: getattr(self, option.name) for option in fields(self)}
        return {name: value for name, value in stated.items() if value is not None}

    @property
    def prefix(self) -> str:
        """The beginning of a command that must run on the head of an emulated cluster; empty for other clusters."""
        if self.emulated_cluster is not None:
            name = [] if self.emulated_cluster == DEFAULT_NAME else ["--name", str(self.emulated_cluster)]
            return f"{shlex.join(['autosync', 'emulate', 'exec', *name])} -- "
        if self.emulate is None:
            return ""
        nodes, _, rate = str(self.emulate).partition("x")
        cluster = [str(self.emulate)] if is_cluster_file(str(self.emulate)) else ["--nodes", nodes, "--link", rate]
        return f"{shlex.join(['autosync', 'emulate', 'up', *cluster])} && autosync emulate exec -- "

    def options(self, *names: str) -> list[str]:
        """The stated options of those `names`, as they are typed."""
        stated = [(name, getattr(self, name)) for name in names if getattr(self, name) is not None]
        return [part for name, value in stated for part in (f"--{name.replace('_', '-')}", str(value))]


def train_command(model: str, strategy: str, ran_on: RanOn) -> str:
    """The command that trains `model` by the strategy file `strategy` on the cluster of the run."""
    workers = () if ran_on.cluster is not None else ("workers",)
    where = ran_on.options(*workers, "address", "cluster", "working_dir")
    return ran_on.prefix + shlex.join(["autosync", "train", "--model", model, "--strategy", strategy, *where])


def trial_command(model: str, strategy: str, ran_on: RanOn) -> str:
    """The command that times the strategy file `strategy` once more on the cluster of the run."""
    workers = () if ran_on.cluster is not None else ("workers",)
    where = ran_on.options(*workers, "address", "cluster", "profile")
    return ran_on.prefix + shlex.join(["autosync", "trial", "--model", model, "--strategy", strategy, *where])


def resume_command(arguments: Sequence[str], out: str, ran_on: RanOn = RanOn()) -> str:
    """The command that resumes the run in `out`, which began with `arguments`: the subcommand and its options.

    A command that made its own emulated cluster makes it again; only a cluster made beforehand needs a prefix.
    """
    named = any(argument == "--out" or argument.startswith("--out=") for argument in arguments)
    more = [*([] if named else ["--out", out]), *([] if "--resume" in arguments else ["--resume"])]
    prefix = ran_on.prefix if ran_on.emulated_cluster is not None else ""
    return prefix + shlex.join(["autosync", *arguments, *more])

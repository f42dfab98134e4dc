"""Commands to type next. They run as printed, because they name the cluster on which the search or race ran."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

DEFAULT_NAME = "net"
"""The name of the emulated cluster that `autosync emulate` uses unless `--name` is stated."""


def is_cluster_file(text: str) -> bool:
    """Whether `text` names a cluster file and not a star such as 4x200mbit."""
    return Path(text).suffix in (".yaml", ".yml")


@dataclass(frozen=True)
class RanOn:
    """The options that chose the cluster of a run; an option that was left out is None."""

    workers: int | None = None
    address: str | None = None
    cluster: str | None = None
    profile: str | None = None
    working_dir: str | None = None
    python_path: str | None = None
    """The folder that the run imported its model from; None for the current folder and installed packages."""
    emulate: str | None = None
    """The emulated cluster that the run created for itself."""
    emulated_cluster: str | None = None
    """The name of an emulated cluster, created earlier by `autosync emulate`, on whose head the command ran."""

    @classmethod
    def of(cls, *documents: Mapping[str, Any]) -> RanOn:
        """The options that JSON `documents` state; the last document with an option takes precedence."""
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
        """The beginning of a command: the folder of its model, and the head of an emulated cluster it must run on."""
        variable = "" if self.python_path is None else f"PYTHONPATH={shlex.quote(self.python_path)} "
        return variable + self._to_head

    @property
    def _to_head(self) -> str:
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
        """The stated options among `names`, as typed on a command line."""
        stated = [(name, getattr(self, name)) for name in names if getattr(self, name) is not None]
        return [part for name, value in stated for part in (f"--{name.replace('_', '-')}", str(value))]


def train_command(model: str, strategy: str, ran_on: RanOn, framework: str | None = None) -> str:
    """The command that trains `model` by the strategy file `strategy` on the cluster of the run.

    `framework` is that of the model, None for the default.
    """
    workers = () if ran_on.cluster is not None else ("workers",)
    where = ran_on.options(*workers, "address", "cluster", "working_dir")
    return ran_on.prefix + shlex.join(["autosync", "train", *_model(model, framework), "--strategy", strategy, *where])


def distribute_call(strategy: str) -> str:
    """The call by which a PyTorch script trains its module by the strategy file `strategy`."""
    return f"autosync.torch.distribute(model, {strategy!r})"


def export_command(strategy: str) -> str:
    """The command that makes a file of plain PyTorch of a strategy that DistributedDataParallel carries out."""
    file = str(Path(strategy).with_name("ddp_strategy.py"))
    return shlex.join(["autosync", "export", strategy, "--to", "ddp", "--out", file])


def trial_command(model: str, strategy: str, ran_on: RanOn, framework: str | None = None) -> str:
    """The command that times the strategy file `strategy` again on the cluster of the run; see `train_command`."""
    workers = () if ran_on.cluster is not None else ("workers",)
    where = ran_on.options(*workers, "address", "cluster", "profile")
    return ran_on.prefix + shlex.join(["autosync", "trial", *_model(model, framework), "--strategy", strategy, *where])


def _model(model: str, framework: str | None) -> list[str]:
    """The options that name a model."""
    return [*([] if framework is None else ["--framework", framework]), "--model", model]


def resume_command(arguments: Sequence[str], out: str, ran_on: RanOn = RanOn()) -> str:
    """The command that resumes the run in `out`, which began with `arguments`: the subcommand and its options.

    A command that created its own emulated cluster creates it again; only a cluster created earlier needs a prefix.
    """
    named = any(argument == "--out" or argument.startswith("--out=") for argument in arguments)
    more = [*([] if named else ["--out", out]), *([] if "--resume" in arguments else ["--resume"])]
    prefix = replace(ran_on, emulate=None).prefix
    return prefix + shlex.join(["autosync", *arguments, *more])

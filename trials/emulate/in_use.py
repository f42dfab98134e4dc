"""Finds commands that run on an emulated cluster and would end with it."""

from pathlib import Path

from autosync.spec.quoting import printable
from trials.emulate.hosts import COMMAND
from trials.emulate.network import processes_in
from trials.emulate.state import State

JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""The environment variable that Ray gives to a job submitted by the dashboard."""

SHOWN = 100
"""The number of characters of a command that a message repeats."""


def in_use(state: State) -> str | None:
    """Return in words the command that runs on the cluster, or that the cluster was made for; None if there is none."""
    inside = {process.pid for namespace in state.namespaces for process in processes_in(namespace)}
    commands = sorted(pid for pid in inside if _variables(pid) & {COMMAND, JOB})
    if commands:
        return f"`{_command(commands[0])}` runs on it (process {commands[0]})"
    if state.owner is not None and state.owner.runs():
        return f"`{_command(state.owner.pid)}` made it for itself (process {state.owner.pid})"
    return None


def _variables(pid: int) -> set[str]:
    """Return the names of the variables of the process; empty if it has ended."""
    return {entry.partition(b"=")[0].decode(errors="replace") for entry in _words(pid, "environ")}


def _command(pid: int) -> str:
    """Return the command of the process, truncated, without characters that could control a terminal."""
    return printable(b" ".join(_words(pid, "cmdline")).decode(errors="replace"))[:SHOWN].strip()


def _words(pid: int, file: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes().split(b"\0")
    except OSError:
        return []

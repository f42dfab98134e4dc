"""Runs every command that reads files on hostile files, and measures its outcome, seconds and memory.

    python -m studies.by_hand.bench_hostile_files
    python -m studies.by_hand.bench_hostile_files --kind strategy --all

Prints a line for each command and file: exit status, seconds, megabytes beyond those for a file that the command
refuses at once, and the beginning of the last output line. The script exits with 1 if any command shows a traceback,
has an exit status other than 0 or 2, takes over 10 seconds or a gigabyte, or quotes more than a line of the file.
Seconds are processor seconds, so that they are the same on a busy machine. Commands that take more than a minute are
run_command.

Commands are forked from this process, which has imported all of them, so that imports are not measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from autosync import commands
from studies.by_hand.hostile import KINDS, cluster_texts, yaml_texts

MOST_SECONDS, MOST_MEGABYTES, LONGEST_SAID = 10.0, 1000.0, 1500
PATIENCE = 60.0

CLUSTER = "nodes:\n- {count: 2, cores: 1}\nlink: 100mbit"
PLAN = "name: a\nmodels: [mlp]\nclusters: [2x1gbit]"
NOTHING = b"{}"
"""Content that every command refuses at once."""

GO_ON = ("tune", "--model", "bert", "--trials", "40", "--resume", "--out", "runs/one", "--data", "runs/data")
NOWHERE = ("--address", "127.0.0.1:1")
"""Arguments by which a command with a valid file ends before it joins Ray."""

TRAIN = ("train", "--model", "mlp", "--backend", "local", "--out", "trained")
OF_RUNS = (
    ("runs", "list", "runs"),
    ("runs", "show", "runs/one"),
    ("runs", "best", "runs/one", "--json"),
    ("runs", "export", "runs/one"),
    ("report", "runs/one"),
    ("report", "runs/one", "runs/two"),
    ("explain", "good.json", "--result", "runs/one"),
)

READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "strategy": (
        ("explain", "runs/one/strategy.json"),
        ("trial", "--model", "mlp", "--backend", "local", "--strategy", "runs/one/strategy.json"),
        (*TRAIN, "--strategy", "runs/one/strategy.json"),
        *OF_RUNS[:3],
        ("report", "runs/one"),
    ),
    "run": (*OF_RUNS, (*GO_ON, *NOWHERE)),
    "cluster in JSON": (*OF_RUNS, (*GO_ON, *NOWHERE)),
    "search": (*OF_RUNS[:2], ("report", "runs/one"), (*GO_ON, *NOWHERE)),
    "result": OF_RUNS,
    "cluster": (
        ("cluster", "show", "it.yaml"),
        ("cluster", "import", "it.yaml"),
        ("explain", "good.json", "--cluster", "it.yaml"),
        (*TRAIN, "--strategy", "good.json", "--cluster", "it.yaml"),
        ("tune", "--model", "mlp", "--out", "new", "--cluster", "it.yaml", *NOWHERE),
        ("tune", "--model", "mlp", "--out", "new", "--emulate", "it.yaml"),
        ("emulate", "up", "it.yaml", "--name", "hostile"),
    ),
    "plan": (("collect", "--plan", "it.yaml", "--out", "collected"),),
}
"""The commands that read each kind of file, with their arguments."""


@dataclass(frozen=True)
class CommandOutcome:
    """The outcome of a command."""

    name: str
    """The name that the command gives itself in messages."""
    status: int
    """The exit status; negative for a signal."""
    seconds: float
    """Processor seconds."""
    megabytes: float
    """Peak memory."""
    said: str
    """The complete output."""
    refused: str
    """The output on standard error."""

    def faults(self, ordinary: float) -> Iterator[str]:
        """Yield the limits that the command broke; `ordinary` is its memory for a file that it refuses at once."""
        if "Traceback (most recent call last)" in self.said:
            yield "a traceback"
        if self.status not in (0, 2):
            yield "a status of its own"
        if self.seconds > MOST_SECONDS:
            yield "slow"
        if self.megabytes - ordinary > MOST_MEGABYTES:
            yield "large"
        if any(len(line) > LONGEST_SAID for line in self.refused.splitlines()):
            yield "quotes too much"
        if self.status == 2 and len(self.sentences) != 1:
            yield "not one sentence"

    @property
    def sentences(self) -> list[str]:
        """The command's messages on standard error, without TensorFlow's log."""
        return [line for line in self.refused.splitlines() if line.startswith(f"{self.name}: ")]

    @property
    def last_line(self) -> str:
        return (self.said.strip().splitlines() or [""])[-1]


def run_command(command: Sequence[str], folder: Path) -> CommandOutcome:
    """Run the command in `folder` in a child of this process."""
    said, refused = folder.with_name("said"), folder.with_name("refused")
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 1
        with said.open("wb", buffering=0) as out, refused.open("wb", buffering=0) as err:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            try:
                os.setsid()
                os.chdir(folder)
                sys.argv = ["autosync", *command]
                status = commands.main()
            except SystemExit as leaving:
                status = leaving.code if isinstance(leaving.code, int) else 1
            except BaseException:
                traceback.print_exc()
            finally:
                with contextlib.suppress(Exception):
                    sys.stdout.flush()
                os._exit(status)
    while True:
        child_ended, how, usage = os.wait4(child, os.WNOHANG)
        if child_ended:
            break
        if time.monotonic() - begin > PATIENCE:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.002)
    seconds = usage.ru_utime + usage.ru_stime
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in (said, refused)]
    return CommandOutcome(
        command[0],
        os.waitstatus_to_exitcode(how),
        seconds,
        usage.ru_maxrss / 1024,
        "".join(texts),
        texts[1],
    )


def write_place(folder: Path) -> None:
    """Write two runs with the records of one, and a valid strategy."""
    from tests.runs.examples import write_finished_run

    write_finished_run(folder / "runs" / "one")
    shutil.copytree(folder / "runs" / "one", folder / "runs" / "two")
    shutil.copy(folder / "runs" / "one" / "strategy.json", folder / "good.json")


def files_of(kind: str, place: Path) -> tuple[str, dict[str, bytes]]:
    """Return the path of files of `kind`, and the hostile contents by name."""
    if kind == "cluster":
        return "it.yaml", yaml_texts(CLUSTER, "link") | cluster_texts()
    if kind == "plan":
        return "it.yaml", yaml_texts(PLAN, "seed")
    name, make = KINDS[kind]
    return f"runs/one/{name}", make(json.loads((place / "runs" / "one" / name).read_text()))


@click.command()
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(list(READERS)), help="Only these kinds.  [default: all]"
)
@click.option(
    "--all", "every", is_flag=True, help="Print a line for every file, rather than only for files with a fault."
)
def main(kinds: Sequence[str], every: bool) -> None:
    """Run every command that reads files on hostile files."""
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "COLUMNS": "120"}
    bad = total = 0
    with tempfile.TemporaryDirectory() as made:
        place = Path(made) / "place"
        place.mkdir()
        write_place(place)
        for kind in kinds or READERS:
            where, files = files_of(kind, place)
            for command in READERS[kind]:
                kept = place / where
                before = kept.read_bytes() if kept.exists() else None
                kept.write_bytes(NOTHING)
                ordinary = run_command(command, place).megabytes
                lines = []
                for name, content in files.items():
                    kept.write_bytes(content)
                    outcome = run_command(command, place)
                    faults = ", ".join(outcome.faults(ordinary))
                    more = max(0.0, outcome.megabytes - ordinary)
                    lines.append((bool(faults), outcome.seconds, more, name, outcome, faults))
                if before is not None:
                    kept.write_bytes(before)
                total, bad = total + len(lines), bad + sum(line[0] for line in lines)
                _print(kind, command, lines, every)
    print(f"Commands ran on {total} hostile files; {bad} of the runs broke a limit.")
    sys.exit(bool(bad))


Line = tuple[bool, float, float, str, CommandOutcome, str]


def _print(kind: str, command: Sequence[str], lines: Sequence[Line], every: bool) -> None:
    statuses = {line[4].status for line in lines}
    counts = ", ".join(f"{sum(line[4].status == status for line in lines)} x {status}" for status in sorted(statuses))
    print(
        f"{kind} | {' '.join(command)} | {len(lines)} files | status {counts} | at most "
        f"{max(line[1] for line in lines):.1f} s, {max(line[2] for line in lines):.0f} MB more",
        flush=True,
    )
    for wrong, seconds, more, name, outcome, faults in lines:
        if every or wrong:
            mark = f"  <-- {faults}" if wrong else ""
            print(
                f"    {name[:34]:34} {outcome.status:3} {seconds:5.1f} s {more:5.0f} MB  {outcome.last_line[:80]}{mark}"
            )


if __name__ == "__main__":
    main()

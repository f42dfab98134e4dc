"""What comes back of hostile files, in how many seconds and megabytes, from every command that reads one.

    python -m tests.by_hand.bench_hostile_files
    python -m tests.by_hand.bench_hostile_files --kind strategy --all

A line for each command and file: exit status, seconds, megabytes over what the command takes for a file that it refuses
at once, and the beginning of what it said last. The exit status is 1 if any of them shows a traceback, ends in another
way than by 0 or 2, takes over 10 seconds or a gigabyte, or quotes more than a line of the file. Seconds are the
processors', so that they are the same on a busy machine; what waits for a minute is ended.

Commands are forked from this process, which has imported them all, so that imports are not measured with each.
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
from tests.by_hand.hostile import KINDS, cluster_texts, yaml_texts

MOST_SECONDS, MOST_MEGABYTES, LONGEST_SAID = 10.0, 1000.0, 1500
PATIENCE = 60.0

CLUSTER = "nodes:\n- {count: 2, cores: 1}\nlink: 100mbit"
PLAN = "name: a\nmodels: [mlp]\nclusters: [2x1gbit]"
NOTHING = b"{}"
"""Content that every command refuses at once."""

GO_ON = ("tune", "--model", "bert", "--trials", "40", "--resume", "--out", "runs/one", "--data", "runs/data")
NOWHERE = ("--address", "127.0.0.1:1")
"""Arguments with which what passes as right ends where Ray would be joined."""

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
"""The commands that read each kind of file, and what they are given."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its status, negative for a signal, core-seconds and peak megabytes, and what it said.

    `said` is all of that, `refused` what was said on standard error; `name` is what the command calls itself.
    """

    name: str
    status: int
    seconds: float
    megabytes: float
    said: str
    refused: str

    def faults(self, ordinary: float) -> Iterator[str]:
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
        """What was refused; beside them TensorFlow may log what it likes."""
        return [line for line in self.refused.splitlines() if line.startswith(f"{self.name}: ")]

    @property
    def last_line(self) -> str:
        return (self.said.strip().splitlines() or [""])[-1]


def ended(command: Sequence[str], folder: Path) -> Ended:
    """The command carried out in `folder` by a child of this process."""
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
        found, how, usage = os.wait4(child, os.WNOHANG)
        if found:
            break
        if time.monotonic() - begin > PATIENCE:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.002)
    seconds = usage.ru_utime + usage.ru_stime
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in (said, refused)]
    return Ended(
        command[0],
        os.waitstatus_to_exitcode(how),
        seconds,
        usage.ru_maxrss / 1024,
        "".join(texts),
        texts[1],
    )


def write_place(folder: Path) -> None:
    """Two runs with the records of one, and a strategy that is right."""
    from tests.runs.examples import write_finished_run

    write_finished_run(folder / "runs" / "one")
    shutil.copytree(folder / "runs" / "one", folder / "runs" / "two")
    shutil.copy(folder / "runs" / "one" / "strategy.json", folder / "good.json")


def files_of(kind: str, place: Path) -> tuple[str, dict[str, bytes]]:
    """The place where files of `kind` go, and what they hold."""
    if kind == "cluster":
        return "it.yaml", yaml_texts(CLUSTER, "link") | cluster_texts()
    if kind == "plan":
        return "it.yaml", yaml_texts(PLAN, "seed")
    name, make = KINDS[kind]
    return f"runs/one/{name}", make(json.loads((place / "runs" / "one" / name).read_text()))


@click.command()
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(READERS)), help="Only these.  [default: all]")
@click.option(
    "--all", "every", is_flag=True, help="A line for each, not only for the slowest and largest of a command."
)
def main(kinds: Sequence[str], every: bool) -> None:
    """Hand hostile files to every command that reads one."""
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
                ordinary = ended(command, place).megabytes
                lines = []
                for name, content in files.items():
                    kept.write_bytes(content)
                    came = ended(command, place)
                    faults = ", ".join(came.faults(ordinary))
                    more = max(0.0, came.megabytes - ordinary)
                    lines.append((bool(faults), came.seconds, more, name, came, faults))
                if before is not None:
                    kept.write_bytes(before)
                total, bad = total + len(lines), bad + sum(line[0] for line in lines)
                _print(kind, command, lines, every)
    print(f"{total} times a command was given a hostile file; {bad} of them did not end as they should.")
    sys.exit(bool(bad))


Line = tuple[bool, float, float, str, Ended, str]


def _print(kind: str, command: Sequence[str], lines: Sequence[Line], every: bool) -> None:
    statuses = {line[4].status for line in lines}
    counts = ", ".join(f"{sum(line[4].status == each for line in lines)} x {each}" for each in sorted(statuses))
    print(
        f"{kind} | {' '.join(command)} | {len(lines)} files | status {counts} | at most "
        f"{max(line[1] for line in lines):.1f} s, {max(line[2] for line in lines):.0f} MB more",
        flush=True,
    )
    for wrong, seconds, more, name, came, faults in lines:
        if every or wrong:
            told = f"  <-- {faults}" if wrong else ""
            print(f"    {name[:34]:34} {came.status:3} {seconds:5.1f} s {more:5.0f} MB  {came.last_line[:80]}{told}")


if __name__ == "__main__":
    main()

"""Runs every command that reads records on damaged or malicious record files.

    python -m studies.by_hand.hostile_records [--only NAME] [--commands runs,report,explain,tune]

Prints a line for each file and command: exit status, processor seconds, peak memory, and the last line of output. The
script exits with 1 if any command shows a traceback, takes over 10 s or 1 GB more than with valid files, or is
run_command by a signal. Seconds are processor seconds, so that other work on the machine does not count.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from autosync.dataset import RecordStore
from autosync.tune.recorded.cells import read_cells
from tests.runs.examples import write_finished_run

ROOT = Path(__file__).parents[2]
MOST_SECONDS, MOST_MORE_MB, GIVE_UP_SECONDS, MOST_SHOWN = 10.0, 1000.0, 120.0, 80

NESTED = "[" * 100_000 + "]" * 100_000

Harm = Callable[[Path], None]
"""Damages the directory of records, in which `records.parquet` has the run's records."""


@dataclass(frozen=True)
class CommandRun:
    """The result of running a command."""

    status: int
    """The exit status; negative for a signal."""
    seconds: float
    """Processor seconds."""
    peak_mb: float
    last_line: str
    traceback: bool

    def is_bad(self, ordinary: CommandRun) -> bool:
        """Return whether the run breaks a limit, compared with `ordinary`, the run on valid files."""
        return (
            self.traceback
            or self.status < 0
            or self.seconds > MOST_SECONDS + ordinary.seconds
            or self.peak_mb > ordinary.peak_mb + MOST_MORE_MB
        )


def records_in(data: Path) -> Path:
    return data / "records.parquet"


def change_bytes(change: Callable[[bytes], bytes]) -> Harm:
    def harm(data: Path) -> None:
        records_in(data).write_bytes(change(records_in(data).read_bytes()))

    return harm


def change_table(change: Callable[[pa.Table], pa.Table], **writing: Any) -> Harm:
    def harm(data: Path) -> None:
        table = pq.read_table(records_in(data))
        pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), records_in(data), **writing)

    return harm


def value(column: str, new: Any) -> Harm:
    """Return a harm that puts `new` into the middle row of a column."""

    def change(table: pa.Table) -> pa.Table:
        field, values = table.schema.field(column), table.column(column).to_pylist()
        values[len(values) // 2] = new
        return table.set_column(table.column_names.index(column), field, pa.array(values, field.type))

    return change_table(change)


def flip_bit(data: Path) -> None:
    """Flip a bit in the column of step times."""
    group = pq.read_metadata(records_in(data)).row_group(0)
    (steps,) = (
        column for column in map(group.column, range(group.num_columns)) if "step_seconds" in column.path_in_schema
    )
    at, content = steps.dictionary_page_offset + steps.total_compressed_size // 2, records_in(data).read_bytes()
    records_in(data).write_bytes(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])


def repeat_row(table: pa.Table, rows: int) -> pa.Table:
    """Return a table of `rows` copies of the first row, dictionary-encoded, which takes almost no space on disk."""
    same, steps = pa.array(np.zeros(rows, "int8")), np.arange(rows + 1, dtype="int32")
    columns = {}
    for field in table.schema:
        first = table.column(field.name).slice(0, 1).combine_chunks()
        if pa.types.is_nested(field.type):
            columns[field.name] = pa.ListArray.from_arrays(pa.array(steps), pa.array(np.full(rows, 0.125)))
        elif first.null_count:
            columns[field.name] = pa.nulls(rows, field.type)
        else:
            columns[field.name] = pa.DictionaryArray.from_arrays(same, first)
    return pa.table(columns)


def long_list(table: pa.Table) -> pa.Table:
    """Return a table of one row with 200 million equal step times."""
    count = 200_000_000
    steps = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.array(np.zeros(count)))
    position = table.column_names.index("step_seconds")
    return table.slice(0, 1).set_column(position, table.schema.field(position), steps)


def texts(table: pa.Table) -> pa.Table:
    """Return a table with 100 MB of text in each of a thousand rows, stored once on disk."""
    big = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, "int32")), pa.array(["x" * 100_000_000]))
    position = table.column_names.index("reason")
    return pa.concat_tables([table] * (1000 // len(table) + 1)).slice(0, 1000).set_column(position, "reason", big)


def others(name: str, make: Callable[[Path], None]) -> Harm:
    """Return a harm that puts another entry into the directory, next to the records."""
    return lambda data: make(data / name)


def newer(data: Path) -> None:
    table = pq.read_table(records_in(data))
    metadata = dict.fromkeys(table.schema.metadata or {}, b"99")
    pq.write_table(table.replace_schema_metadata(metadata), records_in(data))


HARMS: Mapping[str, Harm] = {
    "empty": change_bytes(lambda _: b""),
    "no Parquet": change_bytes(lambda _: b"PK\x03\x04" + bytes(5000)),
    "half of it": change_bytes(lambda content: content[: len(content) // 2]),
    "the end alone": change_bytes(lambda content: content[-2000:]),
    "one bit flipped": flip_bit,
    "footer of 4 GB": change_bytes(lambda content: content[:-8] + b"\xff\xff\xff\xff" + content[-4:]),
    "footer of zeros": change_bytes(lambda content: content[:-5000] + bytes(4992) + content[-8:]),
    "other columns": change_table(lambda table: table.select(["seed", "host"])),
    "column twice": change_table(lambda table: table.append_column("seed", table.column("seed"))),
    "column of other type": change_table(
        lambda table: table.set_column(table.column_names.index("seed"), "seed", pa.array(["a"] * len(table)))
    ),
    "newer version": newer,
    "60 million rows": change_table(lambda table: repeat_row(table, 60_000_000)),
    "1 million rows alike": change_table(lambda table: repeat_row(table, 1_000_000)),
    "200 million steps": change_table(long_list, compression="zstd"),
    "100 MB in each row": change_table(texts, compression="zstd"),
    "nested model": value("model_json", NESTED),
    "nested in cluster": value("cluster_json", '{"nodes": ' + NESTED + "}"),
    "nested strategy": value("strategy_json", '{"format": ' + NESTED + "}"),
    "model of {}": value("model_json", "{}"),
    "keys twice": value("protocol_json", '{"warmup_steps": 1, "warmup_steps": 2}'),
    "infinite number": value("protocol_json", '{"time_limit_seconds": 1e999}'),
    "ten million digits": value("cluster_json", '{"nodes": ' + "9" * 10_000_000 + "}"),
    "versions of 10 MB": value("versions", json.dumps({"x" * 10_000_000: 1})),
    "null seed": value("seed", None),
    "infinite start": value("started_at", float("inf")),
    "negative step": value("step_seconds", [0.1, -1.0]),
    "null step": value("step_seconds", [0.1, None]),
    "unknown outcome": value("outcome", "y" * 1_000_000),
    "text is no Unicode": change_table(
        lambda table: table.set_column(
            table.column_names.index("label"), "label", pa.array([b"\xff\xfe"] * len(table), pa.binary())
        )
    ),
    "folder": others("odd.parquet", os.mkdir),
    "ring of links": others("odd.parquet", lambda path: path.symlink_to(path)),
    "pipe": others("odd.parquet", os.mkfifo),
    "device": others("odd.parquet", lambda path: path.symlink_to("/dev/zero")),
    "text file": others("notes.txt", lambda path: path.write_text("hello") and None),
}


def commands_for(run: Path, data: Path, cell: str) -> Mapping[str, Sequence[str]]:
    return {
        "runs": ("autosync", "runs", "show", str(run), "--data", str(data)),
        "report": ("autosync", "report", str(run), "--data", str(data), "--out", str(run / "page.html")),
        "explain": ("autosync", "explain", str(run / "strategy.json"), "--result", str(data)),
        "replay": (
            "autosync",
            "replay",
            "--data",
            str(data),
            "--model",
            cell,
            "--trials",
            "5",
            "--simulator",
            "analytic",
        ),
    }


def run_command(command: Sequence[str]) -> CommandRun:
    """Run `command`, a module and its arguments."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
        )
        deadline, peak_mb = time.monotonic() + GIVE_UP_SECONDS, 0.0
        while not (waited := os.wait4(process.pid, os.WNOHANG))[0]:
            peak_mb = max(peak_mb, peak_mb_of(process.pid))
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.02)
        _, status, used = waited
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    lines = text.strip().splitlines() or [""]
    seconds = used.ru_utime + used.ru_stime
    return CommandRun(process.returncode, seconds, peak_mb, lines[-1], "Traceback (most recent" in text)


def peak_mb_of(process: int) -> float:
    """Return the process's peak memory in MB. The figure of `wait4` would include memory of this process before
    exec."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    values = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return float(values[0]) / 1000 if values else 0.0


def write_run(place: Path) -> tuple[Path, Path]:
    """Write a finished run into `place`, with its records in one file; return both folders."""
    run = place / "run"
    write_finished_run(run)
    (written,) = (place / "data").glob("*.parquet")
    written.rename(records_in(place / "data"))
    return run, place / "data"


@click.command()
@click.option("--only", default="", help="Only files whose name contains this text.")
@click.option("--commands", "wanted", default="runs,report,explain,tune", help="Commands, separated by commas.")
def main(only: str, wanted: str) -> None:
    """Run the commands on all files and print a line for each."""
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        run, data = write_run(Path(folder))
        cell = read_cells(data)[0][0].name
        assert len(RecordStore(data).read()) > 40
        chosen = {name: command for name, command in commands_for(run, data, cell).items() if name in wanted.split(",")}
        ordinary = {name: run_command(command) for name, command in chosen.items()}
        for name, run_of_command in ordinary.items():
            show("(valid files)", name, run_of_command, ordinary[name].status != 0)
            bad += run_of_command.status != 0
        kept = Path(folder) / "kept"
        shutil.copytree(data, kept)
        for kind, harm in HARMS.items():
            if only not in kind:
                continue
            shutil.rmtree(data)
            shutil.copytree(kept, data)
            harm(data)
            for name, command in chosen.items():
                run_of_command = run_command(command)
                is_bad = run_of_command.is_bad(ordinary[name])
                bad += is_bad
                show(kind, name, run_of_command, is_bad)
    sys.exit(1 if bad else 0)


def show(kind: str, command: str, run_of_command: CommandRun, is_bad: bool) -> None:
    last_line = re.sub(r"/\S*/(?=[^/\s]+)", "", run_of_command.last_line)
    mark = "BAD" if is_bad else "   "
    print(
        f"{mark} {kind:<22} {command:<8} {run_of_command.status:>4} {run_of_command.seconds:5.1f} s "
        f"{run_of_command.peak_mb:5.0f} MB  {last_line[:MOST_SHOWN]}",
        flush=True,
    )


if __name__ == "__main__":
    main()

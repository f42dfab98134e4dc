"""Files of records that someone has damaged or made to do harm, through every command that reads records.

    python -m tests.by_hand.hostile_records [--only NAME] [--commands runs,report,explain,tune]

A line for each file and command: exit status, processor seconds, peak memory, and how the output ends. Exits with 1
when any of them shows a traceback, takes over 10 s or 1 GB more than with the files as they should be, or is ended by a
signal. Seconds are of the processor, so that other work on the machine does not count.
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
"""Does harm to the directory of records, in which `records.parquet` has those of the run."""


@dataclass(frozen=True)
class Ended:
    status: int
    seconds: float
    peak_mb: float
    last_line: str
    traceback: bool

    def is_bad(self, ordinary: Ended) -> bool:
        return (
            self.traceback
            or self.status < 0
            or self.seconds > MOST_SECONDS + ordinary.seconds
            or self.peak_mb > ordinary.peak_mb + MOST_MORE_MB
        )


def records_in(data: Path) -> Path:
    return data / "records.parquet"


def bytes_changed(change: Callable[[bytes], bytes]) -> Harm:
    def harm(data: Path) -> None:
        records_in(data).write_bytes(change(records_in(data).read_bytes()))

    return harm


def table_changed(change: Callable[[pa.Table], pa.Table], **writing: Any) -> Harm:
    def harm(data: Path) -> None:
        table = pq.read_table(records_in(data))
        pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), records_in(data), **writing)

    return harm


def value(column: str, new: Any) -> Harm:
    """Let a row in the middle hold `new`."""

    def change(table: pa.Table) -> pa.Table:
        field, values = table.schema.field(column), table.column(column).to_pylist()
        values[len(values) // 2] = new
        return table.set_column(table.column_names.index(column), field, pa.array(values, field.type))

    return table_changed(change)


def flipped(data: Path) -> None:
    """Flip a bit of what steps took."""
    group = pq.read_metadata(records_in(data)).row_group(0)
    (steps,) = (each for each in map(group.column, range(group.num_columns)) if "step_seconds" in each.path_in_schema)
    at, content = steps.dictionary_page_offset + steps.total_compressed_size // 2, records_in(data).read_bytes()
    records_in(data).write_bytes(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])


def repeated(table: pa.Table, rows: int) -> pa.Table:
    """A table of the first row so many times, as dictionaries, which take next to nothing on disk."""
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


def listed(table: pa.Table) -> pa.Table:
    """A table of one row with 200 million alike step times."""
    count = 200_000_000
    steps = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.array(np.zeros(count)))
    position = table.column_names.index("step_seconds")
    return table.slice(0, 1).set_column(position, table.schema.field(position), steps)


def texts(table: pa.Table) -> pa.Table:
    """A table with 100 MB of text in each of a thousand rows, once on disk."""
    big = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, "int32")), pa.array(["x" * 100_000_000]))
    position = table.column_names.index("reason")
    return pa.concat_tables([table] * (1000 // len(table) + 1)).slice(0, 1000).set_column(position, "reason", big)


def others(name: str, make: Callable[[Path], None]) -> Harm:
    """Put something else into the directory, beside the records."""
    return lambda data: make(data / name)


def newer(data: Path) -> None:
    table = pq.read_table(records_in(data))
    metadata = dict.fromkeys(table.schema.metadata or {}, b"99")
    pq.write_table(table.replace_schema_metadata(metadata), records_in(data))


HARMS: Mapping[str, Harm] = {
    "empty": bytes_changed(lambda _: b""),
    "no Parquet": bytes_changed(lambda _: b"PK\x03\x04" + bytes(5000)),
    "half of it": bytes_changed(lambda content: content[: len(content) // 2]),
    "the end alone": bytes_changed(lambda content: content[-2000:]),
    "one bit flipped": flipped,
    "footer of 4 GB": bytes_changed(lambda content: content[:-8] + b"\xff\xff\xff\xff" + content[-4:]),
    "footer of zeros": bytes_changed(lambda content: content[:-5000] + bytes(4992) + content[-8:]),
    "other columns": table_changed(lambda table: table.select(["seed", "host"])),
    "column twice": table_changed(lambda table: table.append_column("seed", table.column("seed"))),
    "column of other type": table_changed(
        lambda table: table.set_column(table.column_names.index("seed"), "seed", pa.array(["a"] * len(table)))
    ),
    "newer version": newer,
    "60 million rows": table_changed(lambda table: repeated(table, 60_000_000)),
    "1 million rows alike": table_changed(lambda table: repeated(table, 1_000_000)),
    "200 million steps": table_changed(listed, compression="zstd"),
    "100 MB in each row": table_changed(texts, compression="zstd"),
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
    "text is no Unicode": table_changed(
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
        "tune": (
            "autosync",
            "tune",
            "--replay",
            str(data),
            "--model",
            cell,
            "--trials",
            "5",
            "--simulator",
            "analytic",
        ),
    }


def ended(command: Sequence[str]) -> Ended:
    """How `command`, a module and its arguments, ends."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
        )
        deadline, peak_mb = time.monotonic() + GIVE_UP_SECONDS, 0.0
        while not (found := os.wait4(process.pid, os.WNOHANG))[0]:
            peak_mb = max(peak_mb, peak_mb_of(process.pid))
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.02)
        _, status, used = found
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    lines = text.strip().splitlines() or [""]
    seconds = used.ru_utime + used.ru_stime
    return Ended(process.returncode, seconds, peak_mb, lines[-1], "Traceback (most recent" in text)


def peak_mb_of(process: int) -> float:
    """The peak memory so far in MB; what `wait4` tells has this process's own in it, which files are made in."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return float(found[0]) / 1000 if found else 0.0


def made(place: Path) -> tuple[Path, Path]:
    """A finished run in `place`, and its records in one file."""
    run = place / "run"
    write_finished_run(run)
    (written,) = (place / "data").glob("*.parquet")
    written.rename(records_in(place / "data"))
    return run, place / "data"


@click.command()
@click.option("--only", default="", help="Files whose name has this in it.")
@click.option("--commands", "wanted", default="runs,report,explain,tune", help="With commas between.")
def main(only: str, wanted: str) -> None:
    """Print the table."""
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        run, data = made(Path(folder))
        cell = read_cells(data)[0][0].name
        assert len(RecordStore(data).read()) > 40
        chosen = {name: each for name, each in commands_for(run, data, cell).items() if name in wanted.split(",")}
        ordinary = {name: ended(command) for name, command in chosen.items()}
        for name, found in ordinary.items():
            show("(as it should be)", name, found, ordinary[name].status != 0)
            bad += found.status != 0
        kept = Path(folder) / "kept"
        shutil.copytree(data, kept)
        for kind, harm in HARMS.items():
            if only not in kind:
                continue
            shutil.rmtree(data)
            shutil.copytree(kept, data)
            harm(data)
            for name, command in chosen.items():
                found = ended(command)
                is_bad = found.is_bad(ordinary[name])
                bad += is_bad
                show(kind, name, found, is_bad)
    sys.exit(1 if bad else 0)


def show(kind: str, command: str, found: Ended, is_bad: bool) -> None:
    last_line = re.sub(r"/\S*/(?=[^/\s]+)", "", found.last_line)
    mark = "BAD" if is_bad else "   "
    print(
        f"{mark} {kind:<22} {command:<8} {found.status:>4} {found.seconds:5.1f} s {found.peak_mb:5.0f} MB  "
        f"{last_line[:MOST_SHOWN]}",
        flush=True,
    )


if __name__ == "__main__":
    main()

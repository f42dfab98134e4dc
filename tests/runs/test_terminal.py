"""Tables and sentences on terminals of any width, and through pipes."""

from __future__ import annotations

import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

from autosync.runs.listing import FINISHED, SEARCH, RunSummary
from autosync.runs.run_tables import race_table, runs_table
from autosync.runs.tables import FittedTable
from autosync.search.verdict.counterfactuals import Counterfactual, Worth
from autosync.spec.quoting import printable
from autosync.terminal import Terminal, wrap
from autosync.tune.result import worths_table
from tests.architecture.source_tree import ROOT
from tests.runs.examples import write_finished_run

WIDTHS = (20, 60, 80, 100, 200)
LETTERS = "\N{HEBREW LETTER ALEF} \N{GREEK SMALL LETTER MU}\N{NO-BREAK SPACE}s 漢"
NUMBER = re.compile(r"\d[\d.]*")


def shown(table: FittedTable, width: int) -> str:
    console = Terminal(file=io.StringIO(), width=width)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def listed(name: str) -> RunSummary:
    return RunSummary(
        Path(name), name, SEARCH, 0.0, FINISHED, "some-package.models:a_function", 1024, 200, 5025.0, 1.2345,
        1.2345, (1.0567, 1.4321), time="paced",
    )  # fmt: skip


def a_table(kind: str) -> FittedTable:
    if kind == "runs":
        return runs_table([listed("bert-mini-20261128-233503"), listed("x" * 70), listed("a name with spaces in it")])
    if kind == "worths":
        change = Counterfactual("emb/w back on one parameter server with local copies", None, 0.0, 1.1)  # type: ignore[arg-type]
        return worths_table([Worth(change, 1.0821, (1.0312, 1.1234), 12), Worth(change, None, None, 0)])
    place = {
        "name": "filter + gravac", "reached": 2, "seeds": 3, "seconds": 1234.56,
        "steps": 1200.0, "step_seconds": 0.1234,
        "times_as_fast_as_plain": {"value": 1.27, "low": 1.01, "high": 1.53},
    }  # fmt: skip
    return race_table({"time": "paced", "winner": "filter + gravac", "places": [place, {**place, "name": "plain"}]})


MORE = re.compile(r"^A wider terminal also shows: (.*)\.$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["runs", "worths", "race"])
def test_no_width_cuts_a_number_or_a_word(kind: str, width: int) -> None:
    text, whole = (shown(a_table(kind), columns).replace("95 % interval", "interval") for columns in (width, 400))
    titles = re.split(r"  +", whole.splitlines()[0].strip())
    left_out = " ".join(found[1].split()).split(", ") if (found := MORE.search(text)) else []
    rows = [re.split(r"  +", row.strip()) for row in whole.splitlines()[1:]]
    kept = [
        cell
        for row in rows
        if len(row) == len(titles)
        for title, cell in zip(titles, row, strict=True)
        if title not in left_out
    ]
    text = MORE.sub("", text)
    assert kept
    for word in " ".join(kept).split():
        assert word in text.replace("\n", " ") or len(word) > 40, (word, text)
    if not left_out:
        assert sorted(NUMBER.findall(text)) == sorted(NUMBER.findall(whole))
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    longest = max(len(word) for word in text.split())
    assert width < 60 or all(len(line) <= max(width, longest + 8) for line in text.splitlines()), text


def test_a_narrow_table_leaves_out_columns_and_names_them() -> None:
    table = runs_table([listed("bert-mini-20261128-233503")])
    assert [line.rstrip() for line in shown(table, 80).splitlines()] == [
        "run                              best step  speed-up  state",
        "bert-mini-20261128-233503  1234.5 ms paced    1.23 x  finished",
        "A wider terminal also shows: model, nodes, trials, took, 95 % interval, kind.",
    ]
    assert "wider" not in shown(table, 200)


def test_a_very_narrow_table_has_a_block_a_row() -> None:
    text = shown(a_table("runs"), 60)
    assert text.splitlines()[:2] == [
        "bert-mini-20261128-233503",
        "  model some-package.models:a_function  nodes 1024",
    ]
    assert "best step 1234.5 ms paced" in text


def test_sentences_break_between_words_and_commands_not_at_all() -> None:
    text = "A long sentence on a narrow terminal, with a/very/long/path/" + "x" * 60 + " in it."
    lines = wrap(text, 40).splitlines()
    assert " ".join(lines) == text
    assert all(len(line) <= 40 or " " not in line for line in lines)
    command = "Resume with: autosync tune --model bert --out runs/a-name-that-is-long --resume"
    assert wrap(command, 40) == command


@pytest.mark.parametrize(
    ("original", "printed"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u200f\u2066\u061c", "\\u200f\\u2066\\u061c"),
        ("\x9b31m\x07\r", "\\x9b31m\\x07\\r"),
        ("half \udc80", "half \\udc80"),
        ("\U000e0041", "\\U000e0041"),
        ("line\nline\ttab", "line\nline\ttab"),
        (LETTERS, LETTERS),
    ],
)
def test_text_for_a_terminal_has_no_control_characters(original: str, printed: str) -> None:
    assert printable(original) == printed
    for console in (
        Terminal(file=io.StringIO(), width=200),
        Terminal(file=io.StringIO(), width=200, force_terminal=True),
    ):
        table = FittedTable()
        table.texts("name")
        table.row([original.replace("\n", "").replace("\t", "")])
        console.print(table)
        console.print(original, style="bold")
        assert isinstance(console.file, io.StringIO)
        text = re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())
        assert printable(text) == text
        assert printed.split("\n")[0] in text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    write_finished_run(folder / "runs" / "bert-mini-20261128-233503")
    return folder


def on_a_terminal(place: Path, width: int, *arguments: str) -> list[str]:
    """The lines that a terminal of `width` columns receives from `autosync`."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "autosync", *arguments]
    process = subprocess.Popen(command, cwd=place, env=environment, stdout=follower, stderr=follower, stdin=follower)
    os.close(follower)
    received = b""
    while True:
        try:
            part = os.read(leader, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        received += part
    os.close(leader)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", received.decode()).splitlines()


@pytest.mark.parametrize("width", [60, 80])
def test_runs_fit_a_real_terminal(place: Path, width: int) -> None:
    for arguments in (("runs", "list"), ("runs", "show")):
        lines = on_a_terminal(place, width, *arguments)
        assert all(len(line) <= width or " " not in line.strip() for line in lines), "\n".join(lines)
        text = "\n".join(lines)
        assert "bert-mini-20261128-233503" in text
        assert "\N{HORIZONTAL ELLIPSIS}" not in text
        assert re.search(r"\d ms", text)


def test_through_a_pipe_every_row_is_one_line(place: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "autosync", "runs"]
    done = [
        subprocess.run([*command, what], cwd=place, env=environment, capture_output=True, text=True, check=True).stdout
        for what in ("list", "show")
    ]
    assert len(done[0].splitlines()) == 2
    assert "95 % interval" in done[1].splitlines()[2]
    assert any(re.search(r"^> .* [0-9a-f]{8} ", line) for line in done[1].splitlines())

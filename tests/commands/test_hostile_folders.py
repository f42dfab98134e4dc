"""Folders of searches, races and training runs with a damaged file: one sentence, and never a traceback."""

from __future__ import annotations

import contextlib
import encodings.utf_16_be
import encodings.utf_32_be
import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autosync.commands.explain import main as explain
from autosync.commands.report import main as report
from autosync.commands.runs import main as runs
from tests.commands.hostile_folders import VALUES, damages, places, with_value
from tests.runs.examples import write_finished_run
from tests.runs.test_kinds import write_race, write_training

assert encodings.utf_16_be  # loaded as root, because another user may not read the interpreter's folder
assert encodings.utf_32_be

NOBODY = 65534
FILES = {
    "raced": ("race.json", "result.json", "strategy.json", "records/0000.json"),
    "trained": ("run.json", "loss.jsonl"),
    "searched": ("run.json", "result.json", "search.json", "strategy.json"),
}
WHOLE = [
    "empty", "half", "zeros", "no text", "a list", "deep", "huge", "a folder", "a pipe", "a ring of links", "nothing",
    "unreadable",
]  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    write_race(folder / "raced")
    write_training(folder / "trained")
    write_finished_run(folder / "searched")
    return folder


@pytest.fixture
def place(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(good, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read every file, so tests of unreadable files need another user."""
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        yield


def calls(run: str) -> Iterator[tuple[Callable[..., int], list[str]]]:
    yield runs, ["list"]
    yield runs, ["show", run]
    if run != "trained":
        yield runs, ["best", run]
        yield report, [run, *(["--out", "page.html"] if run == "searched" else [])]
    if run == "searched":
        yield explain, [f"runs/{run}/strategy.json", "--result", f"runs/{run}"]


def check(main: Callable[..., int], arguments: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    said = err.getvalue()
    assert status in (0, 1, 2), said
    assert (status == 0) == (said == ""), said
    assert "bug" not in said
    assert len(said) < 4200
    assert all(character.isprintable() or character == "\n" for character in out.getvalue() + said)


@pytest.mark.parametrize("damage", WHOLE)
@pytest.mark.parametrize("run", FILES)
def test_a_file_that_is_damaged_as_a_whole(good: Path, place: Path, run: str, damage: str) -> None:
    for name in FILES[run]:
        shutil.rmtree(place)
        shutil.copytree(good, place)
        dict(damages(place / run / name))[damage]()
        for main, arguments in calls(run):
            if main is not report or damage in ("half", "a folder"):
                with as_nobody() if damage == "unreadable" and main is runs else contextlib.nullcontext():
                    check(main, arguments)


@pytest.mark.parametrize("run", FILES)
def test_a_value_of_a_wrong_type_or_size(place: Path, run: str) -> None:
    generator = random.Random(0)
    for name in FILES[run]:
        file = place / run / name
        if file.suffix != ".json":
            continue
        text = file.read_text(encoding="utf-8")
        document = json.loads(text)
        known = list(places(document))
        for path in [*known[:12], *generator.sample(known, min(len(known), 12))]:
            for value in generator.sample(VALUES, 3):
                file.write_text(with_value(document, path, value), encoding="utf-8")
                for main, arguments in calls(run):
                    if main is runs:
                        check(main, arguments)
        file.write_text(text, encoding="utf-8")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_run_of_mode_700_that_is_another_users(place: Path) -> None:
    for ancestor in (place, *place.parents):
        if ancestor.owner() == "root" and ancestor != Path("/") and not ancestor.stat().st_mode & 1:
            ancestor.chmod(0o755)
    for run in FILES:
        (place / run).chmod(0o700)
    with as_nobody():
        for run in FILES:
            for main, arguments in calls(run):
                check(main, arguments)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("long", ["x" * 5000, "x/" * 3000, "y" * 300])
def test_paths_that_are_too_long(long: str) -> None:
    for main, arguments in (
        (runs, ["list", long]),
        (runs, ["show", long]),
        (runs, ["show", "searched", "--data", long]),
        (runs, ["export", "searched", "--out", long]),
        (report, [long]),
        (report, ["searched", "--out", f"{long}.html"]),
        (explain, [long]),
        (explain, ["runs/searched/strategy.json", "--cluster", long]),
        (explain, ["runs/searched/strategy.json", "--result", long]),
    ):
        check(main, arguments)

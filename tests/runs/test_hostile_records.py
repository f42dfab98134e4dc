"""Commands that read a run's records refuse a damaged or hostile file in one sentence that names the file.

`studies/by_hand/hostile_records.py` has many more such files, each in a process of its own, with its time and memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from autosync.commands.explain import main as explain
from autosync.commands.replay import main as replay
from autosync.commands.report import main as report
from autosync.commands.runs import main as runs
from studies.by_hand.hostile_records import HARMS, write_run

KINDS = ("one bit flipped", "nested model", "infinite start", "half of it", "ring of links")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run and its records."""
    place = tmp_path_factory.mktemp("finished")
    write_run(place)
    return place


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (runs, ("show", "{place}/run", "--data", "{place}/data")),
        (report, ("{place}/run", "--data", "{place}/data", "--out", "{place}/page.html")),
        (explain, ("{place}/run/strategy.json", "--result", "{place}/data")),
        (replay, ("--data", "{place}/data", "--model", "any@cell")),
    ],
    ids=["runs", "report", "explain", "replay"],
)
def test_a_hostile_file_of_records_is_one_sentence_with_its_name(
    main: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    kind: str,
    finished: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "place"
    shutil.copytree(finished, place)
    HARMS[kind](place / "data")
    assert main([argument.format(place=place) for argument in arguments]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert ".parquet" in said
    assert len(said) < 800
    assert not (place / "page.html").exists()

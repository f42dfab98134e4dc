"""Results of older code are kept, do not count as done, and are shown with their version."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.dataset import ResultStore
from studies.bench import live, replaying, versions
from studies.bench.columns import CELLS, LIVE, SEARCHES
from studies.bench.report import Material, write_report
from studies.bench.versions import latest, of_replay, source_digest, versions_in_words
from tests.studies.bench.test_replay import data, replayed, rows  # noqa: F401  a fixture

SHIPPED = Path(__file__).parents[3] / "runtimes" / "bench"


def page_of(out: Path) -> str:
    return write_report(out).read_text(encoding="utf-8")


def test_a_searcher_of_another_version_searches_anew_and_the_page_shows_its_results_alone(
    data: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert replayed(data, "--searchers", "random,evolution", "--seeds", "5", "--cells", "mlp@two") == 0
    before = rows(data)
    assert {row["version"] for row in before} == {"replay 1, searcher 1"}
    monkeypatch.setattr(versions, "SEARCHERS", {"random": 2})
    capsys.readouterr()
    assert replayed(data, "--searchers", "random,evolution", "--seeds", "5", "--cells", "mlp@two") == 0
    assert "5 searches are new." in capsys.readouterr().out
    after = rows(data)
    assert [row for row in after if row in before] == before, "older results are kept"
    text = page_of(data.parent / "out")
    assert "10 replayed searches and 0 live ones." in text
    assert "replay 1, searcher 2: random" in text
    assert "replay 1, searcher 1: evolution" in text
    monkeypatch.setattr(versions, "SEARCHERS", {"random": 3})
    assert "(there is a later one): random" in page_of(data.parent / "out")


def test_of_a_searcher_without_present_results_those_that_are_most_are_shown() -> None:
    older = [{"searcher": "a", "version": version} for version in (None, "0.1", "0.1", None, None)]
    assert latest(older, of_replay) == [{"searcher": "a", "version": None}] * 3
    assert versions_in_words(latest(older, of_replay), of_replay) == (
        "older than all versions (there is a later one): a"
    )
    present = {"searcher": "a", "version": of_replay("a")}
    assert latest([*older, present], of_replay) == [present]


@pytest.mark.thorough
def test_the_results_that_come_with_the_program_have_no_version_and_are_all_shown() -> None:
    material = Material.read(SHIPPED)
    assert len(material.searches) == len(ResultStore(SHIPPED / "searches", SEARCHES).read()) > 8000
    assert len(material.live) == len(ResultStore(SHIPPED / "live", LIVE).read()) > 50
    assert len(material.facts) == len(ResultStore(SHIPPED / "cells", CELLS).read())
    assert {row["version"] for row in [*material.searches, *material.drawn, *material.live]} == {None}


def test_what_keys_of_kept_results_call_them_outlives_moved_modules() -> None:
    assert replaying.FORMAT.startswith("autosync.bench.search/")
    assert live.FORMAT.startswith("autosync.bench.live/")


def test_the_digest_of_the_source_changes_with_every_source_file(tmp_path: Path) -> None:
    assert source_digest() != source_digest(tmp_path)
    (tmp_path / "sync").mkdir()
    (tmp_path / "sync" / "ring.py").write_text("pass\n")
    before = source_digest(tmp_path)
    (tmp_path / "sync" / "ring.py").write_text("pass \n")
    changed = source_digest(tmp_path)
    (tmp_path / "sync" / "ring.py").rename(tmp_path / "sync" / "tree.py")
    assert len({before, changed, source_digest(tmp_path)}) == 3

"""The events of a search for programs, and its output with `--quiet` and `--verbose`."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from autosync.runs import result_schema
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord
from autosync.terminal import json_on_stdout
from autosync.tune.campaign import SearchLimits
from autosync.tune.events import JsonObserver, report_search
from autosync.tune.finishing import finish
from autosync.tune.job import Job
from autosync.tune.terminal import TerminalObserver
from search_spaces import load_space
from tests.commands.documented import names_in_row
from tests.tune.pretend import CLUSTER, MODEL, Kept, PretendBackend, campaign, pretended_job
from tests.tune.records import record

TRIALS, ROUNDS = 8, 2
HEADING = "### Events of `tune`"


def space() -> SearchSpace:
    return load_space("default").bind(MODEL, CLUSTER)


def search(job: Job) -> None:
    """A whole search of made-up trials, as `autosync tune` runs it."""
    report_search(job, space(), TRIALS, 0)
    kept = Kept()
    with job.observer.trials(TRIALS, None, lambda: 0.0) as watcher:
        assert callable(watcher)
        campaign("random", SearchLimits(TRIALS), kept, (watcher,)).run(PretendBackend().run)
    records = [replace(trial, run=job.directory.name) for trial in kept.records]
    for trial in records:
        job.append(trial)
    assert finish(job, records, "") is not None


@contextmanager
def printed() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        yield out, err


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The events of a search with `--json`; its messages went to stderr."""
    folder = tmp_path_factory.mktemp("search")
    with printed() as (out, err):
        with json_on_stdout() as write:
            job = pretended_job(folder, PretendBackend(), rounds=ROUNDS, counterfactuals=1)
            people = TerminalObserver(Console(width=200))
            search(replace(job, observer=JsonObserver(people, write)))
            sys.stdout.write("a line of another library\n")
        assert "The strategy " in err.getvalue()
        assert "a line of another library\n" in err.getvalue()
        return [json.loads(line) for line in out.getvalue().splitlines()]


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind]


def test_a_search_is_an_event_a_line_from_its_beginning_to_its_verdict(events: list[dict[str, Any]]) -> None:
    kinds = [event["event"] for event in events]
    assert kinds[: TRIALS + 1] == ["search"] + ["trial"] * TRIALS
    assert set(kinds[TRIALS + 1 : -1]) == {"turn"}
    assert kinds[-1] == "result"
    (begun,), trials = of_kind(events, "search"), of_kind(events, "trial")
    assert (begun["model"], begun["trials"], begun["replicas"]) == (MODEL.name, TRIALS, list(space().replicas))
    assert [trial["number"] for trial in trials] == list(range(1, TRIALS + 1))
    medians = [trial["median_seconds"] for trial in trials if trial["outcome"] == "ok"]
    assert trials[-1]["best_seconds"] == pytest.approx(min(medians))


def test_the_result_is_that_of_the_file(events: list[dict[str, Any]]) -> None:
    (result,) = of_kind(events, "result")
    on_disk = json.loads(Path(result["files"]["result"]).read_text())
    jsonschema.validate(on_disk, result_schema())
    assert on_disk.keys() - {"wall_seconds"} <= result.keys()
    assert result["verdict"] == on_disk["verdict"]
    assert Path(result["files"]["report"]).exists()
    reverted = [turn for turn in of_kind(events, "turn") if turn["label"].startswith("reverted: ")]
    assert len(reverted) == 2 * ROUNDS


def test_the_docs_name_every_field(events: list[dict[str, Any]]) -> None:
    turn = names_in_row(HEADING, "turn")
    for kind, more in (("search", set()), ("trial", turn), ("turn", set())):
        fields = {name for event in of_kind(events, kind) for name in event} - {"event"}
        assert fields <= names_in_row(HEADING, kind) | more
    assert "files" in names_in_row(HEADING, "result")


def test_a_lost_trial_has_no_number_and_a_resumed_search_goes_on_counting() -> None:
    events: list[dict[str, Any]] = []
    observer = JsonObserver(TerminalObserver(Console(quiet=True)), events.append)
    watcher = observer.trials(9, None, lambda: 0.0)
    watcher.start_from([record("byteps", [0.5]), record("parallax", [0.25])])
    watcher(record("parameter_server", outcome="lost"))
    watcher(record("parameter_server", [0.125]))
    assert [event["number"] for event in events] == [None, 3]
    assert [event["best_seconds"] for event in events] == [0.25, 0.125]


def test_numbers_that_json_does_not_have_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    with json_on_stdout() as write:
        write({"loss": float("nan"), "rates": (1.0, float("inf")), "n": 3})
    assert json.loads(capsys.readouterr().out) == {"loss": None, "rates": [1.0, None], "n": 3}


def output_of(tmp_path: Path, quiet: bool = False, verbose: bool = False) -> list[str]:
    text = io.StringIO()
    observer = TerminalObserver(Console(file=text, width=200), quiet, verbose)
    search(replace(pretended_job(tmp_path, PretendBackend(), rounds=ROUNDS), observer=observer))
    return text.getvalue().splitlines()


def test_a_quiet_search_prints_its_verdict_and_the_strategy_alone(tmp_path: Path) -> None:
    with printed() as (out, err):
        verdict, strategy = output_of(tmp_path, quiet=True)
    assert verdict.startswith(("The strategy ", "No candidate "))
    assert strategy == f"Strategy: {tmp_path / 'run' / 'strategy.json'}"
    assert out.getvalue() == err.getvalue() == ""


def test_a_quiet_search_says_why_there_is_no_verdict(tmp_path: Path) -> None:
    text = io.StringIO()
    observer = TerminalObserver(Console(file=text, width=200), quiet=True)
    job = replace(pretended_job(tmp_path, PretendBackend()), observer=observer)
    assert finish(job, [], "") is None
    assert text.getvalue().startswith("No trial succeeded, so there is no strategy to return; ")


def test_a_verbose_search_prints_every_turn_of_the_finals(tmp_path: Path) -> None:
    plain, verbose = output_of(tmp_path / "plain"), output_of(tmp_path / "verbose", verbose=True)
    turns = [line.split()[0] for line in verbose if line.endswith("  ok")]
    assert len(set(turns)) >= 2
    assert min(turns.count(digest) for digest in turns) == ROUNDS
    assert not any(line.endswith("  ok") for line in plain)


def test_records_of_a_search_are_the_same_with_events(events: list[dict[str, Any]]) -> None:
    kept = Kept()
    campaign("random", SearchLimits(TRIALS), kept).run(PretendBackend().run)
    proposed: list[RuntimeRecord] = kept.records
    assert [trial["strategy_digest"] for trial in of_kind(events, "trial")] == [
        trial.strategy.digest for trial in proposed
    ]

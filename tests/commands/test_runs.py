"""The command: its output, and its refusals in one sentence."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from autosync.commands.runs import main
from autosync.runs import read_run
from autosync.spec import Strategy
from tests.runs.examples import CLUSTER, Story, search_records, write_finished_run, write_run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished run `one`, and `two`, which has only begun."""
    folder = tmp_path_factory.mktemp("place")
    write_run(folder / "runs" / "two", Story(()))
    write_finished_run(folder / "runs" / "one")
    return folder


@pytest.fixture(autouse=True)
def _in_the_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("runs: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("runs: ").strip()


def test_every_run_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "list").splitlines()
    assert lines[0].split()[:3] == ["run", "model", "nodes"]
    assert {line.split()[0]: line.split()[-1] for line in lines[1:]} == {"one": "finished", "two": "unfinished"}


def test_a_run_is_shown_with_its_contenders_its_verdict_and_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "show", "one")
    assert text.startswith(f"Run one: bert-like on 4 nodes, {len(search_records())} trials.")
    assert "\n> guided" in text
    assert "is 1." in text
    assert "Strategy: runs/one/strategy.json" in text
    unfinished = said(capsys, "show", "runs/two")
    assert "There is no verdict yet, because the finals have not run." in unfinished


def test_the_best_strategy_is_its_file_or_itself(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "best", "one") == "runs/one/strategy.json\n"
    strategy = Strategy.from_json(json.loads(said(capsys, "best", "one", "--json")))
    assert strategy.digest == json.loads((place / "runs/one/result.json").read_text())["verdict"]["winner"]


def test_a_timed_strategy_is_given_by_its_baselines_name_or_by_how_its_digest_begins(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = read_run(place / "runs/one").trials
    baseline, candidate = trials[0], next(trial for trial in trials if trial.purpose == "search")
    for which, wanted in ((baseline.label, baseline.strategy), (candidate.strategy.digest[:10], candidate.strategy)):
        assert Strategy.from_json(json.loads(said(capsys, "strategy", which, "one"))) == wanted
    digests = {trial.strategy.digest for trial in trials}
    letter, count = Counter(digest[0] for digest in digests).most_common(1)[0]
    refusal = refused(capsys, "strategy", letter, "one")
    assert f"but '{letter}' names {count} in one; the baselines are {baseline.label}, " in refusal
    assert "but 'guided' names none in one; " in refused(capsys, "strategy", "guided", "one")
    assert all(digest[0] == letter for digest in refusal.split("the digests ")[1].split(" and ")[0].split(", "))


def test_trials_are_exported_to_a_file_or_to_the_terminal(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(said(capsys, "export", "one"))))
    assert said(capsys, "export", "one", "--format", "json", "--out", "trials.json") == ""
    assert [row["digest"] for row in json.loads((place / "trials.json").read_text())] == [row["digest"] for row in rows]


def test_without_a_name_the_latest_run_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "best") == "runs/one/strategy.json\n"


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(said(capsys, "schema"))["$id"] == "autosync.result/1"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("show", "nowhere"),
            "A run is a directory with a run.json, but there is none at nowhere or runs/nowhere; "
            "list the existing runs with `autosync runs list`.",
        ),
        (("list", "nowhere"), "Runs are listed in a folder, but nowhere cannot be read: No such file or directory; "
                              "name another."),
        (("list", "runs/one"), "A run is a directory with a run.json, but runs/one holds none; name another folder."),
        (
            ("best", "two"),
            "A run has a strategy once its trials are over, but runs/two/strategy.json does not exist; resume the run.",
        ),
        (
            ("export", "one", "--out", "runs"),
            "runs cannot be written: Is a directory; name another place.",
        ),
        (("export", "one", "--format", "xml"), "Invalid value for '--format': 'xml' is not one of 'csv', 'json'."),
        (("nonsense",), "No such command 'nonsense'."),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *arguments) == sentence


ASKED = f'{{"name": "a", "model_digest": "b", "cluster": {json.dumps(CLUSTER.to_json())}, "asked": %s}}'

OPTIONS = f'{{"name": "a", "model_digest": "b", "cluster": {json.dumps(CLUSTER.to_json())}, "options": {{%s}}}}'

DAMAGED = {
    "result.json": [
        ('{"strategies": [1]}', "bad/result.json must follow the schema of `autosync runs schema`, but $"),
        ('{"format": "autosync.result/1"}', "bad/result.json must follow the schema of `autosync runs schema`, but $"),
        ('{"wall_seconds": NaN}', "bad/result.json must be JSON, but: NaN is not a number in JSON."),
        ("", "bad/result.json must be JSON, but: Expecting value"),
        ('{"wall_seconds": 1e999}', "bad/result.json must be JSON, but: 1e999 is not a number in JSON."),
        ('{"trials": 1, "trials": 2}', "bad/result.json must be JSON, but: key 'trials' comes twice in one object;"),
        (f'{{"{"k" * 10_000_000}": 1}}', "runs schema`, but $: 'format' is a required property"),
        ('{"trials": ' + "9" * 10_000_000 + "}", "bad/result.json must have numbers of at most 64 digits"),
    ],
    "run.json": [
        (
            '{"name": "a", "model_digest": "b", "cluster": "x"}',
            "In FOLDER/bad/run.json 'cluster' is an object, not 'x'",
        ),
        ('{"name": "a", "model_digest": "b", "cluster": {}}', "bad/run.json names a cluster that cannot be read: "),
        ('{"options": 3}', "bad/run.json needs the field 'name'"),
        (ASKED % "[[1]]", "In FOLDER/bad/run.json 'asked' is an object, not [[1]]"),
        (ASKED % "null", "In FOLDER/bad/run.json 'asked' is an object, not None"),
        (ASKED % '{"time_budget_seconds": [1]}', "'time_budget_seconds' is a number, not [1]"),
        (ASKED % '{"space": {"name": "a"}}', "'log10_size' is a number, not None"),
        (OPTIONS % ('"data": "' + "x" * 4001 + '"'), "'data' may have at most 4000 characters, not 4001; shorten it."),
        (OPTIONS % ('"data": {}'), "'data' is a text, not {}"),
        (
            '{"name": "' + "x" * 9_999_999 + '", "model_digest": "b", "cluster": {}}',
            "'name' may have at most 4000 char",
        ),
        ("{}", "bad/run.json needs the field 'name'"),
        ('{"name": "a", "name": "b"}', "bad/run.json must be JSON, but: key 'name' comes twice in one object; keep"),
        ("[" * 100_000, "bad/run.json must have at most 64 nested brackets, but has 100000."),
    ],
    "search.json": [
        ("null", "bad/search.json must be a JSON object, not NoneType."),
        ('{"searcher": 1}', "In FOLDER/bad/search.json 'searcher' is an object, not 1"),
        ('{"searcher": {}, "seconds_gone": true}', "In FOLDER/bad/search.json 'seconds_gone' is a number, not True"),
    ],
}


@pytest.mark.parametrize(
    ("file", "content", "sentence"), [(file, *case) for file, cases in DAMAGED.items() for case in cases]
)
def test_a_damaged_run_is_named_and_hides_no_other(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, content: str, sentence: str
) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(place / "runs" / "one", folder / "good")
    shutil.copytree(place / "runs" / "one", folder / "bad")
    (folder / "bad" / file).write_text(content)
    wanted = sentence.replace("FOLDER", str(folder))
    lines = said(capsys, "list", str(folder)).splitlines()
    assert {line.split()[0]: line.split()[-1] for line in lines[1:3]} == {"good": "finished", "bad": "unreadable"}
    assert lines[3].startswith("bad: ")
    assert wanted in lines[3]
    assert wanted in refused(capsys, "show", str(folder / "bad"))


def test_a_strategy_that_is_none_is_named_with_its_file(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(place / "runs" / "one", tmp_path / "bad")
    (tmp_path / "bad" / "strategy.json").write_text('{"format": "x"}')
    for asked in (("show",), ("best",), ("best", "--json")):
        assert refused(capsys, *asked, str(tmp_path / "bad")).startswith(
            f"{tmp_path}/bad/strategy.json holds no strategy: "
        )


def test_a_run_without_records_has_nothing_to_export(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "export", "two").startswith("Trials are exported from the run's records, but none of two-")
    assert refused(capsys, "strategy", "a", "two").startswith("Strategies are read from the run's records, but none of")

"""The files of one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosync.baselines import BASELINES
from autosync.errors import AutosyncError
from autosync.spec import Strategy
from autosync.tune.directory import RunDirectory
from autosync.tune.options import OptionsError
from tests.tune.pretend import CLUSTER, MODEL, options


def begun(path: Path) -> RunDirectory:
    run = RunDirectory.open(options(path))
    run.write_run(options(path), MODEL.digest, CLUSTER)
    return run


def test_what_a_run_was_asked_and_where_reads_back(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    assert run.read_run() == (MODEL.digest, CLUSTER)
    assert run.read_state() == (None, 0.0)
    run.write_state({"format": "any", "drawn": 3}, 12.5)
    assert run.read_state() == ({"format": "any", "drawn": 3}, 12.5)


def test_a_resumed_run_has_the_name_it_began_with_and_another_run_of_that_directory_name_has_not(
    tmp_path: Path,
) -> None:
    first, second = begun(tmp_path / "a" / "run"), begun(tmp_path / "b" / "run")
    assert first.name != second.name
    assert first.name.startswith("run-")
    assert RunDirectory.open(options(tmp_path / "a" / "run", resume=True)) == first


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("seed", 5, "--seed, but it was 0 and now is 5"),
        ("timed_steps", 7, "--steps, but it was 40 and now is 7"),
        ("searcher", "random", "--searcher, but it was 'guided' and now is 'random'"),
        ("warm_start", "/some/where", "--warm-start, but it was None and now is '/some/where'"),
        ("model", "bert", "--model, but it was 'mlp' and now is 'bert'"),
        ("workers", 3, "--workers, but it was None and now is 3"),
        ("without_rules", ("bucket_order",), "--without-rule, but it was [] and now is ['bucket_order']"),
    ],
)
def test_a_run_resumed_with_another_option_is_refused_and_told_which(
    tmp_path: Path, name: str, value: object, sentence: str
) -> None:
    begun(tmp_path)
    with pytest.raises(OptionsError) as refusal:
        RunDirectory.open(options(tmp_path, resume=True, **{name: value}))
    assert str(refusal.value) == f"--resume needs the same {sentence}; restore it, or start a new run."


def test_of_which_other_records_a_run_learns_reads_back(tmp_path: Path) -> None:
    run = begun(tmp_path)
    assert run.read_earlier() is None
    run.write_earlier(["b", "a"])
    assert RunDirectory.open(options(tmp_path, resume=True)).read_earlier() == ["b", "a"]


CLUSTER_JSON = CLUSTER.to_json()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("run.json", {}, "run.json needs the field 'name'; name a run of autosync.tune."),
        ("run.json", {"model": "mlp", "strategy": "0" * 16}, "run.json needs the field 'name'; name a run of"),
        ("run.json", {"name": "a", "model_digest": "b"}, "run.json needs the field 'cluster'; name a run of"),
        ("run.json", {"name": {}, "model_digest": "b", "cluster": CLUSTER_JSON}, "'name' is a text, not {}"),
        ("run.json", {"name": "a", "model_digest": 1, "cluster": CLUSTER_JSON}, "'model_digest' is a text, not 1"),
        ("run.json", {"name": "a", "model_digest": "b", "cluster": {"nodes": {}}}, "names a cluster that cannot be"),
        (
            "run.json",
            {"name": "a", "model_digest": "b", "cluster": CLUSTER_JSON},
            "--model, but it was None and now is",
        ),
        ("search.json", {}, "search.json needs the field 'searcher'. It has: none."),
        ("search.json", {"searcher": {}}, "search.json needs the field 'seconds_gone'. It has: searcher."),
        ("search.json", {"searcher": [], "seconds_gone": 1.0}, "'searcher' is an object, not []"),
        ("search.json", {"searcher": {}, "seconds_gone": [1]}, "'seconds_gone' is a number, not [1]"),
        ("earlier.json", {}, "earlier.json needs the field 'record_ids'. It has: none."),
        ("earlier.json", {"record_ids": [{}]}, "earlier.json: 'record_ids' must be str, not {}."),
    ],
)
def test_a_run_whose_files_say_something_else_is_not_resumed(
    tmp_path: Path, name: str, content: dict[str, object], sentence: str
) -> None:
    begun(tmp_path)
    (tmp_path / name).write_text(json.dumps(content))

    def resumed() -> None:
        run = RunDirectory.open(options(tmp_path, resume=True))
        run.read_state()
        run.read_earlier()

    with pytest.raises(AutosyncError) as refusal:
        resumed()
    assert sentence in str(refusal.value)


def test_a_run_may_be_resumed_for_more_trials_and_more_rounds(tmp_path: Path) -> None:
    begun(tmp_path)
    more = options(tmp_path, resume=True, trials=900, rounds=20, patience=90, training_steps=10)
    assert RunDirectory.open(more).path == tmp_path


def test_a_file_is_replaced_in_one_go_so_that_a_failed_write_leaves_the_old_one(tmp_path: Path) -> None:
    run = begun(tmp_path)
    run.write_result({"trials": 1})
    with pytest.raises(TypeError):
        run.write_result({"trials": object()})
    assert json.loads(run.result_file.read_text()) == {"trials": 1}
    before = run.result_file.stat().st_ino
    run.write_result({"trials": 2})
    assert run.result_file.stat().st_ino != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json", "run.json"]


def test_a_file_that_cannot_be_written_is_said_so_and_nothing_is_left_behind(tmp_path: Path) -> None:
    run = begun(tmp_path)
    (tmp_path / "search.json").mkdir()
    with pytest.raises(AutosyncError, match=r"search\.json cannot be written: Is a directory; .*, and add"):
        run.write_state({}, 0.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "search.json"]


@pytest.mark.parametrize("name", ["parameter_server", "byteps", "all_reduce_25mb"])
def test_a_strategy_file_has_a_line_a_variable_and_reads_back_as_the_strategy(tmp_path: Path, name: str) -> None:
    run, strategy = begun(tmp_path), BASELINES[name](MODEL, CLUSTER)
    run.write_strategy(strategy, ['what it "does"', "in words"])
    text = run.strategy_file.read_text()
    for variable in MODEL.variables:
        lines = [line for line in text.splitlines() if f'"{variable.name}"' in line]
        assert len(lines) == 1
        assert json.loads(lines[0].strip().rstrip(","))["variable"] == variable.name
    document = json.loads(text)
    assert document["summary"] == ['what it "does"', "in words"]
    assert Strategy.from_json(document) == strategy
    assert Strategy.from_json(document).digest == strategy.digest

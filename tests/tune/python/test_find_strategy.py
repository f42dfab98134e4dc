"""`autosync.find_strategy` as a person calls it: in a script, with a model that is defined there."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import autosync
from autosync.errors import AutosyncError, ModelError
from autosync.spec import Strategy
from autosync.tune.options import OptionsError, TuneOptions
from autosync.tune.python.find_strategy import MoreOptions
from autosync.tune.python.result import Result
from tests.report.pages import seen
from tests.tune.jobs import Job, ended
from tests.tune.python.scripts import MODEL

TRIALS = 5

SEARCH = f"""
import json
import sys
from concurrent.futures import ThreadPoolExecutor

from ray import tune

records = []


class Watch(tune.Callback):
    def __init__(self):
        self.seen = open("hooks.txt", "w")

    def setup(self, **info):
        print("setup", file=self.seen)

    def on_trial_result(self, iteration, trials, trial, result, **info):
        print("result", result["strategy_digest"], file=self.seen)

    def on_experiment_end(self, trials, **info):
        print("end", len(trials), file=self.seen, flush=True)


def search():
    callbacks = [records.append, Watch()]
    return autosync.find_strategy(build, trials={TRIALS}, out="runs/one", callbacks=callbacks, **SMALL)


result = ThreadPoolExecutor(1).submit(search).result()
assert result.report().name == "report.html"
by_tune = result.tune_results()
figures = [result.plot_search(), result.plot_contenders(), result.plot_strategy(), result.plot_step()]
try:
    result.plot_importance()
except autosync.AutosyncError as error:
    refused = str(error)
json.dump({{
    "records": [record.strategy.digest for record in records],
    "strategy": result.strategy.to_json(),
    "verdict": [result.verdict.winner.digest, result.verdict.speedup],
    "frame": result.trials.astype(object).where(result.trials.notna(), None).to_dict("records"),
    "figures": [figure._repr_png_()[1:4].decode() for figure in figures],
    "refused": refused,
    "text": str(result),
    "html": result._repr_html_(),
    "by_tune": [[row.metrics["strategy_digest"] for row in by_tune], by_tune.get_best_result().metrics["step_seconds"]],
    "ray": sys.modules["ray"].is_initialized(),
}}, open("seen.json", "w"))
"""


@pytest.fixture(scope="module")
def script_results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folder of a script that has run a search in a thread, and the values that it saw."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "script.py").write_text(MODEL + SEARCH)
    job = Job(folder, module="script")
    ended(job, 0)
    yield folder, json.loads((folder / "seen.json").read_text())
    job.end()


def test_a_script_gets_the_strategy_the_verdict_and_each_record(script_results: tuple[Path, dict[str, Any]]) -> None:
    folder, result = script_results
    run = folder / "runs/one"
    verdict = json.loads((run / "result.json").read_text())["verdict"]
    assert result["strategy"] == Strategy.from_json(json.loads((run / "strategy.json").read_text())).to_json()
    assert result["verdict"] == [verdict["winner"], verdict["speedup"]]
    assert len(result["records"]) == len(set(result["records"])) == TRIALS
    assert not result["ray"]


def test_a_callback_of_ray_tune_is_called_and_tune_keeps_the_trials(
    script_results: tuple[Path, dict[str, Any]],
) -> None:
    folder, result = script_results
    hooks = [line.split() for line in (folder / "hooks.txt").read_text().splitlines()]
    assert hooks == [["setup"], *(["result", digest] for digest in result["records"]), ["end", str(TRIALS)]]
    digests, best = result["by_tune"]
    timed = [row["median_seconds"] for row in result["frame"] if row["purpose"] in ("baseline", "search")]
    assert sorted(digests) == sorted(result["records"])
    assert best == min(timed)


def test_a_script_gets_tables_figures_and_the_page(script_results: tuple[Path, dict[str, Any]]) -> None:
    folder, result = script_results
    rows = list(csv.DictReader((folder / "runs/one/trials.csv").open()))
    assert [row["digest"] for row in rows] == [row["digest"] for row in result["frame"]]
    assert [list(row) for row in rows] == [list(row) for row in result["frame"]]
    assert [float(row["median_seconds"]) for row in rows] == [row["median_seconds"] for row in result["frame"]]
    assert result["figures"] == ["PNG"] * 4
    assert result["refused"].startswith("This run has no picture 'importance', because it lacks the data; it has ")
    assert result["text"] in seen(folder / "runs/one/report.html").text or "best baseline" in result["text"]
    assert result["html"].count("<tr>") > TRIALS


def test_a_result_is_loaded_from_the_folder_of_its_search(script_results: tuple[Path, dict[str, Any]]) -> None:
    folder, seen_there = script_results
    result = Result.load(folder / "runs/one")
    assert result.verdict is not None
    assert [result.verdict.winner.digest, result.verdict.speedup] == seen_there["verdict"]
    assert (str(result), result.strategy.to_json()) == (seen_there["text"], seen_there["strategy"])
    bound = json.loads((folder / "runs/one/result.json").read_text())["verdict"].get("bound")
    assert (bound and bound["seconds"]) == (result.bound and result.bound.seconds)
    with pytest.raises(AutosyncError, match=r"A run is a directory with a run.json"):
        Result.load(folder)


def test_the_copied_model_is_in_the_folder_and_commands_find_it(script_results: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = script_results
    run = folder / "runs/one"
    assert "class Net(nn.Module):" in (run / "model_from_main.py").read_text()
    asked = json.loads((run / "run.json").read_text())["asked"]
    assert asked["command"].startswith("autosync tune --model model_from_main:build --trials 5 --workers 2 ")
    assert asked["ran_on"]["python_path"] == str(run)
    assert f"PYTHONPATH={run} autosync trial " in seen(run / "report.html").text


INTERRUPTED = """
result = autosync.find_strategy(build, trials=40, out="runs/one", **SMALL)
print("RESULT", result.verdict, len(result.run.trials), result.strategy.digest, flush=True)
print(result)
again = autosync.find_strategy(build, trials=6, out="runs/one", resume=True, progress=False, **SMALL)
print("AGAIN", again.verdict.winner.digest, [record.sequence for record in again.run.trials])
"""


def test_ctrl_c_returns_the_trials_so_far_and_the_printed_command_continues(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(MODEL + INTERRUPTED)
    job = Job(tmp_path, module="script")
    job.wait_for("   3/40")
    job.press_ctrl_c()
    printed = ended(job, 0)
    job.end()
    told, none, count, digest = next(line for line in printed.splitlines() if line.startswith("RESULT")).split()
    assert (told, none) == ("RESULT", "None")
    assert int(count) >= 3
    assert "and without finals. The fastest strategy so far takes" in printed
    again = printed.partition("Resume with: ")[2].partition("\n")[0]
    assert again.startswith(f"PYTHONPATH={tmp_path / 'runs/one'} autosync tune --model model_from_main:build ")
    assert " --out runs/one " in again
    assert again.endswith(" --resume")
    assert digest[:8] in printed
    winner = json.loads((tmp_path / "runs/one/result.json").read_text())["verdict"]["winner"]
    assert printed.splitlines()[-1] == f"AGAIN {winner} {list(range(max(6, int(count))))}"


IN_RAY = """
import ray

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
address = ray.get_runtime_context().gcs_address


@ray.remote(num_cpus=0)
def job():
    result = autosync.find_strategy(build, trials=3, out=FOLDER, **SMALL)
    return result.strategy.digest, ray.is_initialized()


def fail(record):
    raise ValueError("no more of this")


print("RESULT", *ray.get(job.remote()), ray.is_initialized(), ray.get_runtime_context().gcs_address == address)
try:
    autosync.find_strategy(build, trials=9, out="runs/two", progress=False, callbacks=[fail], **SMALL)
except autosync.AutosyncError as error:
    print("REFUSED", error, ray.is_initialized())
"""


@pytest.mark.thorough
def test_inside_a_ray_job_the_joined_ray_is_used_and_stays(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(MODEL + IN_RAY.replace("FOLDER", repr(str(tmp_path / "runs/one"))))
    job = Job(tmp_path, module="script")
    printed = ended(job, 0)
    job.end()
    told = next(line for line in printed.splitlines() if line.startswith("RESULT")).split()
    digest = json.loads((tmp_path / "runs/one/result.json").read_text())["verdict"]["winner"]
    assert told[1:] == [digest, "True", "True", "True"]
    refused = next(line for line in printed.splitlines() if line.startswith("REFUSED"))
    assert refused.startswith("REFUSED The callback 'fail' failed, so the search ended: ValueError: no more of this.")
    assert refused.endswith("continue with resume=True. True")


def build() -> None:
    """Not called, because the options below are refused before."""


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"trials": 0}, "--trials must be greater than or equal to 1, not 0"),
        ({"time_budget": -1.0}, "--time-budget must be greater than 0"),
        ({"workers": 2, "cluster": "cluster.yaml"}, "--workers and --cluster exclude each other"),
        ({"steps": 3}, r"has no option 'steps'; it also has capture_time.*Did you mean 'timed_steps'\?"),
        (
            {"emulate": "4x200mbit"},
            "makes none; make one with `autosync emulate up`, and run your program with `autosync emulate exec`",
        ),
    ],
)
def test_an_unusable_option_is_an_error_of_the_project(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=sentence):
        autosync.find_strategy(build, out=tmp_path / "run", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_another_run_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(OptionsError, match="already holds a run; add --resume to continue it"):
        autosync.find_strategy(build, out=tmp_path)
    with pytest.raises(OptionsError, match=r"--resume needs an existing run, but .* holds none"):
        autosync.find_strategy(build, out=tmp_path / "none", resume=True)
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def test_an_unusable_model_is_an_error_of_the_project(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No model is called 'nonsense'"):
        autosync.find_strategy("nonsense", out=tmp_path / "run")
    with pytest.raises(AutosyncError, match="not a lambda"):
        autosync.find_strategy(lambda: None, out=tmp_path / "run")


def test_every_option_of_the_command_has_a_name_here() -> None:
    own = {"model", "trials", "time_budget_seconds", "out", "resume", "cluster", "address", "python_path"}
    assert set(MoreOptions.__annotations__) == set(TuneOptions.model_fields) - own - {"emulate", "or_local"}


def test_options_written_as_a_command_are_the_same_options() -> None:
    from autosync.commands.tune import command

    options = TuneOptions.create(
        model="mine:build",
        trials=7,
        time_budget_seconds=60.5,
        workers=2,
        without_rules=("one", "two"),
        try_first=(Path("a b.json"),),
        seed=3,
        out=Path("runs/x y"),
        data="records",
        timed_steps=5,
        warmup_steps=0,
        trial_time_limit_seconds=12.0,
        tuned_all_reduce=True,
        node_wait_seconds=1.0,
        probe=False,
    )
    words = shlex.split(shlex.join(options.arguments()))
    parameters = command.make_context("tune", words).params
    of_output = ("as_json", "quiet", "verbose")
    stated = {name: value for name, value in parameters.items() if name not in of_output}
    assert TuneOptions.create(**stated) == options

"""The command: the sources of model and cluster, and its sentences if something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.baselines import BASELINES
from autosync.commands.explain import main
from autosync.spec import AllReduce, Cast, Discipline, ParameterServer, Rhythm, Strategy, VariableStrategy
from tests import cases
from tests.commands.explained_runs import MLP, record, write_profile, write_records, write_run, write_strategy

MODEL, CLUSTER = cases.bert_like_model(), cases.star_cluster(4, gbit_per_s=0.2)
STRATEGY = BASELINES["all_reduce_64mb"](MODEL, CLUSTER)


@pytest.fixture(autouse=True)
def _nothing_lies_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_records(tmp_path / "kept", record(MODEL, CLUSTER, STRATEGY, [0.2, 0.21]))


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[str]:
    assert main(list(map(str, arguments))) == 0
    return capsys.readouterr().out.splitlines()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(list(map(str, arguments))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("explain: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("explain: ").strip()


def test_a_strategy_in_its_run_directory_is_explained_with_that_runs_model_cluster_and_result(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "runs" / "one"
    measured = {
        "label": "all_reduce_64mb",
        "strategy_digest": STRATEGY.digest,
        "purpose": "baseline",
        "changes_statistics": False,
        "outcome": "ok",
        "remeasured": False,
        "median_seconds": 0.205,
        "median_interval_seconds": [0.2, 0.21],
        "steps": 40,
    }
    write_run(directory, MODEL, CLUSTER, data, strategies=[measured])
    lines = said(capsys, write_strategy(directory, STRATEGY))
    assert lines[:4] == [
        f"Strategy {STRATEGY.digest} on 4 replicas",
        f"The model is from 1 record in {data}.",
        f"The cluster is from the run in {directory}.",
        "bert-like: 1.89 M parameters in 75 variables, 3.73 MB of gradients a replica and step "
        "(1 sparse, 700 rows touched); batch 8 a replica; Adam(learning_rate=0.0001).",
    ]
    assert "  Measured in that run: 205.0 ms a step, median of 40 (95 % interval 200.0 to 210.0)." in lines
    assert any("fitted to 1 timed record)" in line for line in lines)


def test_a_strategy_elsewhere_is_explained_by_the_run_that_is_named(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "runs" / "one"
    write_run(directory, MODEL, CLUSTER, data, strategies=[])
    file = write_strategy(tmp_path / "elsewhere", STRATEGY)
    assert said(capsys, file, "--result", directory / "result.json") == said(capsys, file, "--result", directory)


def test_records_alone_tell_model_and_cluster(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_strategy(tmp_path, STRATEGY)
    lines = said(capsys, file, "--result", data)
    assert f"The cluster is from the records in {data}." in lines
    assert "  Measured in one trial: 205.0 ms a step (median)." in lines
    write_records(data, record(MODEL, CLUSTER, STRATEGY, [0.195]), record(MODEL, CLUSTER, STRATEGY, [0.215]))
    again = "  Measured in 3 trials: 205.0 ms a step (medians from 195.0 to 215.0)."
    assert again in said(capsys, file, "--result", data)


def test_records_of_a_run_that_was_moved_are_looked_for_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(tmp_path / "data", record(MODEL, CLUSTER, STRATEGY, [0.2]))
    directory = tmp_path / "runs" / "one"
    write_run(directory, MODEL, CLUSTER, tmp_path / "gone")
    assert f"The model is from 1 record in {tmp_path / 'data'}." in said(capsys, write_strategy(directory, STRATEGY))


def test_a_cluster_file_goes_before_the_runs_cluster(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text("link: 50mbit\nnodes: [{count: 4, cores: 2}]\n")
    lines = said(capsys, write_strategy(tmp_path, STRATEGY), "--result", data, "--cluster", tmp_path / "mine.yaml")
    assert f"The cluster is from {tmp_path / 'mine.yaml'}." in lines
    assert any("0.05 Gbit/s (stated)" in line for line in lines)


def test_without_a_cluster_the_strategys_devices_imply_one_whose_figures_are_assumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = [ParameterServer("b/cpu:1"), *[AllReduce(0)] * (len(MODEL.variables) - 1)]
    variables = tuple(
        VariableStrategy(variable.name, (shard,)) for variable, shard in zip(MODEL.variables, shards, strict=True)
    )
    strategy = Strategy(("a/gpu:0", "a/gpu:2", "b/cpu:0"), variables)
    write_records(tmp_path / "data", record(MODEL, CLUSTER, STRATEGY, [0.2]))
    lines = said(capsys, write_strategy(tmp_path, strategy))
    note = (
        "No cluster is stated, so it is implied by the strategy's devices: all rates and latencies are assumed, "
        "and 4 cores per node; state yours with --cluster."
    )
    assert note in lines
    assert "Node a: 1 worker, 4 cores, 3 GPUs" in lines
    assert "Node b: 2 workers, 4 cores" in lines
    links = lines[lines.index("What crosses in one step") + 2 : lines.index("How long a step takes") - 1]
    assert len(links) > 3
    assert all(line.endswith("Gbit/s (assumed)") for line in links)


def test_a_strategy_that_changes_the_statistics_says_so_before_anything_else_it_does(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = tuple(
        replace(variable, shards=tuple(replace(shard, compressor=Cast("bf16")) for shard in variable.shards))
        for variable in STRATEGY.variables
    )
    lines = said(capsys, write_strategy(tmp_path, replace(STRATEGY, variables=variables)), "--result", data)
    assert lines[lines.index("What it does") + 1].startswith("  CHANGES THE STATISTICS of training (gradients in bf16)")


def test_a_strategy_file_that_is_missing_or_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "no.json"
    assert refused(capsys, missing) == (
        f"Strategy file {missing} cannot be read: No such file or directory; name a strategy.json."
    )
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert refused(capsys, broken).startswith(f"Strategy file {broken} must be JSON, but: Expecting property name")
    broken.write_text('{"format": "autosync.result/1"}')
    assert refused(capsys, broken) == (
        f"Strategy file {broken}: A strategy file says format 'autosync.strategy/1', "
        f"but this one says 'autosync.result/1'."
    )


def test_a_model_that_is_nowhere_on_disk_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_strategy(tmp_path, STRATEGY)
    asked = "name the model with --model, or its run or records with --result."
    assert refused(capsys, file) == (
        f"A strategy does not state the sizes of its variables, and there are no records here; {asked}"
    )
    other_model = cases.mlp_model()
    write_records(tmp_path / "data", record(other_model, CLUSTER, BASELINES["parallax"](other_model, CLUSTER), [0.1]))
    assert refused(capsys, file) == (
        "A strategy does not state the sizes of its variables, and no record in data has a model with these variables; "
        f"{asked}"
    )


def test_a_result_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, write_strategy(tmp_path, STRATEGY), "--result", tmp_path / "nowhere") == (
        f"--result must name a run's directory, its result.json or a directory of records, not {tmp_path / 'nowhere'}; "
        "name one of these."
    )


def test_a_strategy_that_does_not_fit_is_refused_with_the_first_fault(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_strategy(tmp_path, replace(STRATEGY, replicas=("elsewhere/cpu:0",)))
    (tmp_path / "mine.yaml").write_text("nodes: [{count: 4, cores: 2}]\n")
    sentence = refused(capsys, file, "--result", data, "--cluster", tmp_path / "mine.yaml")
    assert sentence.startswith(
        f"{file} does not fit model 'bert-like' on this cluster: Replica 'elsewhere/cpu:0' is not in the cluster."
    )


def test_a_strategy_with_a_discipline_is_refused(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_strategy(tmp_path, replace(STRATEGY, discipline=Discipline(Rhythm(8))))
    assert refused(capsys, file, "--result", data).startswith("Step times cannot rank a strategy with a disci")


def test_a_run_file_that_is_no_json_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text("nothing")
    assert refused(capsys, write_strategy(tmp_path, STRATEGY)).startswith(f"{tmp_path / 'run.json'} must be JSON, but")


def test_run_files_that_lack_something_are_named(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_strategy(tmp_path, STRATEGY)
    write_run(tmp_path, MODEL, CLUSTER, data, strategies=[{"strategy_digest": STRATEGY.digest}])
    said_of_result = refused(capsys, file)
    assert said_of_result.startswith(f"{tmp_path / 'result.json'} must follow the schema of `autosync runs schema`")
    (tmp_path / "run.json").write_text("{}")
    assert refused(capsys, file) == (f"{tmp_path / 'run.json'} needs the field 'name'; name a run of autosync.tune.")


def test_an_option_there_is_not_is_refused_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such option" in refused(capsys, "strategy.json", "--nonsense")


def run_alone(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which prints the heavy packages that it loaded on its last line."""
    script = (
        "import sys\nfrom autosync.commands.explain import main\nstatus = main(sys.argv[1:])\n"
        "print(*sorted({'tensorflow', 'torch', 'ray'} & set(sys.modules)))\nsys.exit(status)"
    )
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_what_is_on_disk_is_explained_without_a_heavy_framework(tmp_path: Path, data: Path) -> None:
    done = run_alone(write_strategy(tmp_path, STRATEGY), "--result", data)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == ""


def test_a_cluster_file_that_is_not_there_is_refused_before_the_model_is_captured(tmp_path: Path) -> None:
    done = run_alone(write_strategy(tmp_path, STRATEGY), "--model", "mlp", "--cluster", tmp_path / "nope.yaml")
    assert done.returncode == 2
    assert "nope.yaml" in done.stderr
    assert done.stdout == "\n", "no framework was loaded"


def of_mlp(*replicas: str) -> Strategy:
    return Strategy(replicas, tuple(VariableStrategy(name, (AllReduce(0),)) for name in MLP))


@pytest.mark.thorough
def test_a_model_that_is_named_is_captured(tmp_path: Path) -> None:
    file = write_strategy(tmp_path, of_mlp("node0/cpu:0", "node0/cpu:1"))
    done = run_alone(file, "--model", "mlp")
    assert done.returncode == 0, done.stderr
    assert "The model mlp was captured just now." in done.stdout
    assert done.stderr == "", "nothing of TensorFlow's log"
    refusal = run_alone(file, "--model", "nosuch")
    assert refusal.returncode == 2
    assert refusal.stderr.strip().startswith("explain: No model is called 'nosuch'. Known: ")


@pytest.mark.thorough
def test_paced_passes_follow_a_profile_of_another_device_or_else_the_models_own(tmp_path: Path) -> None:
    file = write_strategy(tmp_path, of_mlp("node0/cpu:0", "node1/cpu:0"))
    (tmp_path / "paced.yaml").write_text("pace: {scale: 5}\nnodes: [{count: 2}]\n")
    options = ("--model", "mlp", "--cluster", tmp_path / "paced.yaml")
    done = run_alone(file, *options, "--profile", write_profile(tmp_path / "h100.json"))
    assert done.returncode == 0, done.stderr
    assert "; paced passes follow a profile of H100, float32, 2026-11-20 (driver 570)." in done.stdout
    assert "Bottleneck: the paced passes, busy for 500 ms." in done.stdout
    own_profile = run_alone(file, *options)
    assert own_profile.returncode == 0, own_profile.stderr
    assert "ms  the paced passes" in own_profile.stdout
    refusal = run_alone(file, *options, "--profile", write_profile(tmp_path / "h100.json", batch_size=32))
    assert refusal.returncode == 2
    assert refusal.stderr == (
        "explain: The profile of 'H100' does not fit model 'mlp': it was measured with batches of 32, and the model "
        "takes 8; measure this model.\n"
    )


def test_a_profile_is_refused_where_no_pass_is_paced_by_it(tmp_path: Path) -> None:
    file, profile = write_strategy(tmp_path, STRATEGY), write_profile(tmp_path / "h100.json")
    (tmp_path / "real.yaml").write_text("nodes: [{count: 4}]\n")
    refusals = {
        ("--model", "mlp", "--profile", profile, "--cluster", tmp_path / "real.yaml"): (
            "--profile applies to paced passes, but no node of this cluster is paced; give the nodes a pace, or "
            "leave it out."
        ),
        (
            "--profile",
            profile,
        ): "--profile belongs to the model that --model names; add --model, or leave --profile out.",
        ("--model", "mlp", "--profile", "no.json"): (
            "Profile 'no.json' cannot be read: No such file or directory; name a file."
        ),
    }
    for arguments, sentence in refusals.items():
        done = run_alone(file, *arguments)
        assert (done.returncode, done.stderr) == (2, f"explain: {sentence}\n")
        assert done.stdout == "\n", "no framework was loaded"


def test_an_own_model_that_is_not_captured_in_time_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "endless.py").write_text("import time\n\ndef make():\n    time.sleep(1e6)\n")
    file = write_strategy(tmp_path, STRATEGY)
    told = refused(capsys, file, "--model", "endless:make", "--capture-time-limit", "0.2")
    assert told.startswith("Building and capturing 'endless:make' must take no longer than 0.2 s, but")


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e300"])
def test_a_capture_time_limit_that_is_none_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(capsys, "strategy.json", "--model", "mlp", "--capture-time-limit", seconds)
    assert "seconds must be over 0 and at most 604800, not " in told

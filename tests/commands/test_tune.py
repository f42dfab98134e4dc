"""The command's refusals before anything is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import ray

from autosync.commands.tune import command, main
from autosync.errors import ClusterError
from autosync.runs.claim import claim_folder
from autosync.spec import DeviceProfile
from autosync.tune.emulation import tune_on_emulation
from autosync.tune.options import TuneOptions

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every refusal here must come before Ray starts."""

    def started(**_: object) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr(ray, "init", started)
    monkeypatch.chdir(tmp_path)


def refused(*arguments: str) -> str:
    """The one sentence on standard error."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        assert main(arguments) == 2
    assert out.getvalue() == ""
    told = err.getvalue()
    assert told.startswith("tune: ")
    assert told.endswith(".\n")
    assert told.count("\n") == 1
    return told.removeprefix("tune: ").strip()


def test_a_folder_that_another_command_uses_is_refused() -> None:
    with claim_folder(Path("run")):
        for more in ((), ("--resume",)):
            told = refused("--model", "mlp", "--out", "run", *more)
            assert told.startswith("--out run is in use by another command (process ")
    assert not Path("run").exists()


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    assert refused("--model", "nosuch").startswith("No model is called 'nosuch'. Known: bert, bert-base, bert-class")


def test_an_unknown_model_is_refused_when_it_begins_like_a_known_one_and_when_a_space_is_named() -> None:
    assert "No model is called 'mlpx'" in refused("--model", "mlpx")
    assert "No model is called 'nosuch'" in refused("--model", "nosuch", "--space", "tiny")


@pytest.mark.parametrize("name", ["um:", ":f", ".um:f", "um.:f", "um:f:g", "um:3", ":"])
def test_a_model_of_ones_own_without_a_module_or_a_function_is_refused_from_its_name(name: str) -> None:
    assert refused("--model", name) == f"A model of your own is named as package.module:function, not {name!r}."


def test_a_checkpoint_that_is_none_is_refused_and_said_what_one_is() -> None:
    sentence = refused("--model", "mlp", "--warm-start", "nowhere")
    assert sentence.startswith(
        "--warm-start nowhere cannot be used: A checkpoint must be a folder with simulator.json and "
    )
    assert "No such file or directory" in sentence


def test_no_trials_are_refused() -> None:
    assert refused("--model", "mlp", "--trials", "0") == "--trials must be greater than or equal to 1, not 0."


def test_more_workers_than_any_machine_holds_are_refused_before_one_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    cores = os.cpu_count() or 1
    sentence = refused("--model", "mlp", "--workers", "1000000", "--out", "run")
    assert sentence == (
        f"This machine takes at most {64 * cores} workers, 64 for each of its {cores} cores, not 1000000; "
        "lower --workers, or join a cluster of several machines with --address."
    )
    assert not Path("run").exists()


def test_what_cannot_be_read_as_an_option_and_what_is_missing_is_refused_without_the_usage() -> None:
    sentence = refused("--model", "mlp", "--trials", "abc")
    assert sentence == "Invalid value for '--trials': 'abc' is not a valid integer."
    assert refused() == "Missing option '--model' / '--task'."


def test_the_command_in_a_process_of_its_own_ends_with_the_status_of_what_is_refused() -> None:
    command_line = [sys.executable, "-m", "autosync.tune", "--trials", "abc"]
    done = subprocess.run(command_line, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tune: Invalid value for '--trials': 'abc' is not a valid integer.\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("--workers", "2"), ("--nodes-per-trial", "2")),
        (("--address", "10.0.0.1:6379"), ("--emulate", "4x1gbit")),
        (("--cluster", "c.yaml"), ("--emulate", "4x1gbit")),
    ],
)
def test_options_that_exclude_each_other_are_refused(first: tuple[str, str], second: tuple[str, str]) -> None:
    sentence = refused("--model", "mlp", *first, *second)
    assert sentence == f"{first[0]} and {second[0]} exclude each other; leave one of them out."


def test_probing_again_is_refused_for_a_new_run() -> None:
    sentence = refused("--model", "mlp", "--reprobe")
    assert sentence == "--reprobe measures the links of a resumed run again; add --resume, and leave --no-probe out."


def test_a_way_to_meet_the_loss_of_nodes_that_is_unknown_is_refused() -> None:
    assert (
        refused("--model", "mlp", "--on-node-loss", "cry") == "--on-node-loss must be one of wait, shrink, not 'cry'."
    )


def test_a_cluster_that_cannot_be_emulated_is_refused_before_it_is_made() -> None:
    sentence = refused("--model", "mlp", "--emulate", "four")
    assert sentence.startswith(
        "An emulated cluster is written like 4x200mbit (nodes, then each link's rate), not 'four'"
    )
    assert refused("--model", "nosuch", "--emulate", "2x1gbit").startswith("No model is called 'nosuch'.")


def test_a_profile_is_refused_before_a_cluster_is_made_that_no_pass_of_is_paced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without these tools, no cluster can be made
    profile = DeviceProfile("H100", {"driver": "570"}, 32, "float32", "2026-11-20", 0.01, 0.02, {})
    (tmp_path / "h100.json").write_text(json.dumps(profile.to_json()))
    options = ("--model", "mlp", "--profile", "h100.json", "--emulate")
    (tmp_path / "real.yaml").write_text("nodes: [{count: 2}]\n")
    for unpaced in ("2x1gbit", "real.yaml"):
        assert refused(*options, unpaced) == (
            "--profile applies to paced passes, but no node of this cluster is paced; give the nodes a pace, or "
            "leave it out."
        )
    (tmp_path / "paced.yaml").write_text("nodes: [{count: 2}]\npace: {scale: 2}\n")
    assert refused(*options, "paced.yaml").startswith("No cluster can be emulated here: ")
    (tmp_path / "h100.json").write_text("{}")
    assert refused(*options, "paced.yaml").startswith("A device profile needs the field 'device'.")


def test_a_cluster_file_that_is_not_there_is_refused() -> None:
    assert "'none.yaml'" in refused("--model", "mlp", "--cluster", "none.yaml")


def test_an_unknown_space_is_refused_with_the_known_ones() -> None:
    sentence = refused("--model", "mlp", "--space", "nosuch")
    assert sentence.startswith(
        "No search space is called 'nosuch'. Known: bert, cnn, ddp, ddp_lossy, default, lossy, ncf, tiny;"
    )


def test_a_rule_that_no_space_has_is_refused_with_those_there_are() -> None:
    sentence = refused("--model", "mlp", "--without-rule", "load_balancing", "--without-rule", "luck")
    assert sentence == (
        "Space 'default' has no rule 'luck' to do without. Known: load_balancing, server_choice, bucket_order, "
        "partition_bounds, common_decisions."
    )


def test_resume_without_a_directory_is_refused() -> None:
    sentence = refused("--model", "mlp", "--resume")
    assert sentence == "--resume needs --out, the directory of the run to resume."


def test_resume_of_a_directory_without_a_run_is_refused() -> None:
    sentence = refused("--model", "mlp", "--resume", "--out", "empty")
    assert sentence == "--resume needs an existing run, but empty holds none; omit --resume to start one."
    assert not Path("empty").exists()


def test_a_directory_that_holds_a_run_is_refused_without_resume() -> None:
    Path("run").mkdir()
    Path("run/run.json").write_text("{}")
    sentence = refused("--model", "mlp", "--out", "run")
    assert sentence == "--out run already holds a run; add --resume to continue it, or name another folder."


def test_a_data_directory_that_cannot_be_written_is_refused() -> None:
    Path("data").write_text("a file where the directory should be")
    sentence = refused("--model", "mlp", "--out", "run", "--data", "data")
    assert sentence == "Records cannot be written to data: File exists. Give another directory."


def test_a_run_directory_that_cannot_be_made_is_refused() -> None:
    Path("run").write_text("a file where the directory should be")
    sentence = refused("--model", "mlp", "--out", "run")
    assert sentence == "--out run cannot be made: File exists; name another folder."


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a directory that nobody can write to")
def test_a_run_directory_that_cannot_be_written_is_refused() -> None:
    assert "--out /proc/self cannot be written: " in refused("--model", "mlp", "--out", "/proc/self")


def test_wrong_options_are_refused_without_loading_any_heavy_library() -> None:
    code = (
        "import sys\n"
        "from autosync.commands.tune import main\n"
        "status = main(['--model', 'mlp', '--trials', '0'])\n"
        "print([name for name in ('ray', 'pyarrow', 'torch', 'tensorflow', 'numpy') if name in sys.modules])\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "[]\n")
    assert done.stderr == "tune: --trials must be greater than or equal to 1, not 0.\n"


def test_the_command_has_the_defaults_of_the_options() -> None:
    defaults = TuneOptions.create(model="mlp", out=Path("run")).model_dump(exclude={"python_path"})
    parameters = command.make_context("tune", ["--model", "mlp"]).params
    printed = {"as_json": False, "quiet": False, "verbose": False}
    assert parameters | {"out": Path("run")} == defaults | printed


def test_where_no_cluster_can_be_emulated_the_search_is_on_this_machine_if_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused("--model", "mlp", "--or-local") == (
        "--or-local is the fallback of --emulate; add --emulate, or leave --or-local out."
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    options = TuneOptions.create(model="mlp", emulate="2x1gbit", out=tmp_path / "run", data=tmp_path / "data")
    lacking = "No cluster can be emulated here: the command 'ip' is not on the PATH; install iproute2."
    with pytest.raises(ClusterError, match=lacking):
        tune_on_emulation("2x1gbit", options, [])
    assert tune_on_emulation("2x1gbit", options.model_copy(update={"or_local": True}), []) is None
    assert capsys.readouterr().out == (
        f"{lacking} The search therefore uses workers of this machine, and no emulated links connect them.\n"
    )


def test_flags_of_commands_that_were_part_of_tune_still_run_them_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--model", "digits", "--objective", "target", "--target", "loss=1", "--seeds", "1")
    assert main(words) == 2
    note, refusal = capsys.readouterr().err.splitlines()
    assert note == ("tune: --objective is now the command `autosync race`; this version still accepts the flag.")
    assert refusal == "race: --seeds must be from 2, for an interval, to 100, not 1."
    assert main([f"--replay={tmp_path / 'no'}", "--model", "mlp@two"]) == 2
    note, refusal = capsys.readouterr().err.splitlines()
    assert note == "tune: --replay is now the command `autosync replay`; this version still accepts the flag."
    assert refusal.startswith("replay: ")
    assert str(tmp_path / "no") in refusal
    assert main(["--objective", "step-time"]) == 2
    assert "No such option '--objective'" in capsys.readouterr().err

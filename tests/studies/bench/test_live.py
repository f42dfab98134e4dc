"""Live searches: their commands, the kept rows and the tables. A stand-in plays the runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosync.cost import step_bound
from autosync.dataset import RecordStore, ResultStore
from autosync.errors import BenchError, SpecError
from autosync.search.protocol import GIVEN
from autosync.search.verdict.judging import judge, with_default
from autosync.simulator import LearnedSimulator
from autosync.spec import DeviceProfile
from autosync.stats.estimate import Estimate
from autosync.tune.recorded.cells import read_cells
from autosync.tune.result import SearchResult, result_json
from studies.bench.columns import LIVE
from studies.bench.cost import EPOCHS, cost_table, live_costs
from studies.bench.live import LiveJob, command_of, jobs_of, parse_cell, row_of
from studies.bench.live_tables import controls_table, kinds_of, live_table, rules_table
from studies.bench.live_targets import live_targets_table
from studies.bench.pictures import live_picture
from studies.bench.report import write_report
from studies.bench.runs import ALL_MEMBERS, live
from studies.bench.transferred import moves_table
from tests.tune.pretend import CLUSTER, MODEL
from tests.tune.recorded.examples import write_dataset
from tests.tune.records import baseline, found, record

JOB = LiveJob(parse_cell("bert-mini@topologies/two_racks.yaml"), "guided", 1, 40, more=("--simulator", "replay"))
NOWHERE = Path("no-records")
FOUND, MOVED = found(2)


class PlayedTune:
    """Stands in for `autosync tune`: writes the files of a run, or fails."""

    def __init__(self, found_seconds: float = 0.1, status: int = 0) -> None:
        self.commands: list[Sequence[str]] = []
        self.found_seconds = found_seconds
        self.status = status

    def __call__(self, command: Sequence[str]) -> int:
        self.commands.append(command)
        options = dict(itertools.pairwise(command))
        directory, store = Path(options["--out"]), RecordStore.create(Path(options["--data"]))
        directory.mkdir(parents=True, exist_ok=True)
        run = {"name": directory.name, "model_digest": MODEL.digest, "cluster": CLUSTER.to_json()}
        (directory / "run.json").write_text(json.dumps(run))
        if self.status:
            return self.status
        trials = [record("all_reduce_25mb", [0.2]), record(FOUND, [self.found_seconds])]
        if "--try-first" in command:
            trials.insert(0, replace(record(MOVED, [0.16]), label=GIVEN))
        for number, trial in enumerate(trials):
            store.append(replace(trial, run=directory.name, sequence=number, started_at=float(number)))
        rounds = [
            [replace(trial, purpose="remeasure", run=directory.name, started_at=float(start)) for trial in trials]
            for start in range(10, 14)
        ]
        for trial in itertools.chain.from_iterable(rounds):
            store.append(trial)
        judged = judge(rounds, {baseline("all_reduce_25mb").digest})
        verdict = with_default(judged, rounds, {baseline("all_reduce_25mb").digest})
        result = result_json(SearchResult(MODEL, trials, rounds, verdict), 600.0)
        (directory / "result.json").write_text(json.dumps(result))
        return 0


def rows(out: Path) -> list[dict[str, Any]]:
    return ResultStore(out / "live", LIVE).read()


def test_a_job_is_a_tune_command_that_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    command = command_of(JOB, tmp_path)
    options = dict(itertools.pairwise(command))
    assert command[1:3] == ["-m", "autosync.tune"]
    wanted = ("bert-mini", "topologies/two_racks.yaml", "guided", "1", "40")
    assert tuple(options[f"--{name}"] for name in ("model", "emulate", "searcher", "seed", "trials")) == wanted
    assert "--resume" not in command
    JOB.directory(tmp_path).mkdir(parents=True)
    (JOB.directory(tmp_path) / "run.json").write_text("{}")
    assert command_of(JOB, tmp_path) == [*command, "--resume"]


def test_an_ablation_of_a_rule_has_a_directory_of_its_own(tmp_path: Path) -> None:
    job = replace(JOB, without_rule="cut", more=("--steps", "20"))
    command = command_of(job, tmp_path, NOWHERE)
    assert command[-6:] == ["--without-rule", "cut", "--warm-start", str(NOWHERE), "--steps", "20"]
    assert "bert-mini@two_racks/guided-without-cut-seed-1" in str(job.directory(tmp_path))
    assert (
        len({variant.directory(tmp_path) for variant in (JOB, job, replace(JOB, trials=41), replace(JOB, seed=2))}) == 4
    )


def asked(**changes: Any) -> list[LiveJob]:
    """The jobs of one cell without paced nodes, with `changes`."""
    usual = {"cells": ["mlp@2x1gbit"], "seeds": 1, "without_rules": (), "profile": None, "more": ("--steps", "20")}
    return jobs_of(**usual | changes, searcher="guided", trials=40)


def test_a_profile_is_one_models_and_that_of_paced_passes(tmp_path: Path) -> None:
    device = DeviceProfile("H100", {"driver": "570"}, 32, "float32", "2026-11-20", 0.01, 0.02, {})
    profile, paced = tmp_path / "h100.json", tmp_path / "paced.yaml"
    with pytest.raises(SpecError, match=r"Profile '.*h100\.json' cannot be read: No such file or directory"):
        asked(profile=profile)
    profile.write_text(json.dumps(device.to_json()))
    with pytest.raises(SpecError, match="--profile applies to paced passes, but no node of this cluster is paced;"):
        asked(profile=profile)
    paced.write_text("nodes: [{count: 2}]\npace: {scale: 2}\n")
    with pytest.raises(SpecError) as refusal:
        asked(profile=profile, cells=[f"mlp@{paced}", f"bert-mini@{paced}"])
    assert str(refusal.value) == (
        "--profile belongs to one model, but here are mlp, bert-mini; choose its model with --cells."
    )
    (job,) = asked(profile=profile, cells=[f"mlp@{paced}"])
    assert command_of(job, tmp_path)[-4:] == ["--profile", str(profile), "--steps", "20"]
    assert asked()[0].more == ("--steps", "20")


def test_a_live_search_is_kept_and_not_run_again(tmp_path: Path) -> None:
    said: list[str] = []
    tune = PlayedTune()
    assert live([JOB], NOWHERE, tmp_path, said.append, tune)
    assert live([JOB], NOWHERE, tmp_path, said.append, tune)
    assert len(tune.commands) == 1
    (row,) = rows(tmp_path)
    assert (row["cell"], row["searcher"], row["seed"], row["trials"]) == ("bert-mini@two_racks", "guided", 1, 2)
    assert (row["speedup"], row["beyond_noise"], row["found_after_trials"]) == (pytest.approx(2.0), True, 2)
    assert (row["baseline_seconds"], row["median_baseline_seconds"], row["winner_seconds"]) == (0.2, 0.2, 0.1)
    assert (row["over_default"], row["time"]) == (row["speedup"], "real")
    assert (row["batch_size"], row["replicas"]) == (MODEL.batch_size, 2)
    assert (row["budget"], row["more"], bool(row["code"])) == (40, "--simulator replay", True)
    assert row["purposes"] == ["baseline", "search"]
    assert (row["measured_seconds"], row["hits"]) == ([0.2, 0.1], [False, True])
    assert said[-1] == "1 of 1 searches have a result."


def test_one_that_ends_badly_does_not_stop_the_others(tmp_path: Path) -> None:
    said: list[str] = []
    assert not live([JOB], NOWHERE, tmp_path, said.append, PlayedTune(status=1))
    assert "The search ended with status 1; the other searches continue." in said
    assert rows(tmp_path) == []
    tune = PlayedTune()
    assert live([JOB], NOWHERE, tmp_path, said.append, tune)
    assert tune.commands[0][-1] == "--resume"


def test_an_interruption_ends_all_and_the_same_call_goes_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        live([JOB], NOWHERE, tmp_path, print, PlayedTune(status=130))
    assert live([JOB], NOWHERE, tmp_path, print, PlayedTune())


def test_a_run_without_a_readable_result_is_said_so(tmp_path: Path) -> None:
    JOB.directory(tmp_path).mkdir(parents=True)
    (JOB.directory(tmp_path) / "result.json").write_text("{}")
    with pytest.raises(
        BenchError, match=r"must hold a finished run, but: .*; remove the directory and rerun the search\."
    ):
        row_of(JOB, tmp_path)


@pytest.mark.thorough
def test_the_simulator_is_taught_first_by_other_models_on_other_clusters_whose_times_are_of_the_same_kind(
    tmp_path: Path,
) -> None:
    data, tune = write_dataset(tmp_path / "data"), PlayedTune()
    alike, neither, paced = (
        replace(JOB, cell=parse_cell(f"{model}@{tmp_path / file}"), more=())
        for model, file in (("mlp", "two.yaml"), ("bert-mini", "three.yaml"), ("bert-mini", "paced.yaml"))
    )
    for job, pace in ((alike, ""), (neither, ""), (paced, "pace: {scale: 2}\n")):
        Path(job.cell.cluster).write_text(f"{pace}nodes: [{{count: 2}}]\n")
    jobs = [alike, neither, paced, JOB, replace(neither, searcher="evolution")]
    assert live(jobs, data, tmp_path / "out", print, tune)
    options = [dict(itertools.pairwise(command)) for command in tune.commands]
    assert ["--warm-start" in chosen for chosen in options] == [False, True, False, False, False]
    learned = LearnedSimulator.load(Path(options[1]["--warm-start"]))
    (two,) = (recorded for recorded in read_cells(data)[0] if recorded.name == "mlp@two")
    assert learned._start.record_count == sum(trial.timed for trials in two.trials.values() for trial in trials)
    assert learned.settings.members == ALL_MEMBERS
    assert [bool(row["taught_on"]) for row in rows(tmp_path / "out")].count(True) == 1
    assert live(jobs, data, tmp_path / "out", print, tune)
    assert len(tune.commands) == len(jobs), "all results are kept"


@pytest.mark.parametrize("text", ["bert-mini", "@4x200mbit", "bert-mini@"])
def test_a_cell_is_a_model_and_a_cluster(text: str) -> None:
    with pytest.raises(BenchError, match="--cells needs cells such as bert-mini@4x200mbit"):
        parse_cell(text)


def test_tables_tell_gains_from_controls(tmp_path: Path) -> None:
    control = replace(JOB, cell=parse_cell("resnet-mini@2x10gbit"), control=True)
    live([JOB, replace(JOB, seed=2)], NOWHERE, tmp_path, print, PlayedTune(0.1))
    live([control], NOWHERE, tmp_path, print, PlayedTune(0.2))
    found_rows = rows(tmp_path)
    ((cell, _, asked, speedup, default, guess, bound, way, seeds, beyond, hits, *_),) = live_table(found_rows).rows
    assert (cell, asked) == ("bert-mini@two_racks", "40 --simulator replay")
    assert (speedup, default, beyond) == ("2.00 [2.00, 2.00]", "2.00 [2.00, 2.00]", "2 of 2")
    assert (guess, seeds.count("2.00 [")) == ("2.00 [2.00, 2.00]", 2)
    assert hits.startswith("100.0 % [34.2, ")
    assert bound == f"{0.2 / step_bound(MODEL, CLUSTER).seconds:.2f}"
    assert way == f"{step_bound(MODEL, CLUSTER).gap_closed(0.2, 2.0):.0%}"
    ((_, _, _, _, untold, *_),) = live_table([{**row, "over_default": None} for row in found_rows]).rows
    assert untold == "-"
    ((cell, *_, expected),) = controls_table(found_rows).rows
    assert (cell, expected) == ("resnet-mini@2x10gbit", "1 of 1")
    assert [line[1] for line in live_targets_table(found_rows).rows[:4]] == ["yes"] * 4
    doubtful = [{**row, "speedup": 1.9 if row["seed"] == 2 else 1.0} for row in found_rows]
    assert [line[1] for line in live_targets_table(doubtful).rows[:4]] == ["no", "no", "yes", "yes"]
    assert live_targets_table(doubtful).rows[1][2] == "1.38 x in bert-mini@two_racks, not beyond the noise"
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "(live_searches.svg)" in page


def test_targets_are_held_against_the_room_that_the_bound_leaves_and_against_rivals(tmp_path: Path) -> None:
    live([JOB, replace(JOB, searcher="gp")], NOWHERE, tmp_path, print, PlayedTune(0.1))
    by_searcher = {row["searcher"]: row for row in rows(tmp_path)}
    purposes = ["baseline", *["search"] * 3]
    curves = {"guided": [0.2, 0.105, 0.1, 0.1], "gp": [0.2, 0.15, 0.14, 0.105]}
    searches = [
        {**row, "bound_seconds": 0.08, "purposes": purposes, "measured_seconds": curves[name], "hits": [False] * 4}
        for name, row in by_searcher.items()
    ]
    met = {line[0]: line[1:] for line in live_targets_table(searches).rows}
    usual, _, _, default, way, trials, rivals = met.values()
    assert usual == ("yes", "1 of 1")
    assert default == ("yes", "2.00 x (n = 1)")
    assert way == ("yes", "83% (n = 1)"), "0.1 of the 0.12 s that the bound leaves"
    assert trials == ("yes", "2")
    assert rivals == ("yes", "2 beside 4 of gp (n = 1)")
    slow = [{**row, "measured_seconds": [0.2] * 4} if row["searcher"] == "gp" else row for row in searches]
    assert live_targets_table(slow).rows[-1][1:] == ("yes", "2 beside gp, which never came close in 1 of 1")
    little = [{**row, "bound_seconds": 0.19} for row in searches if row["searcher"] == "guided"]
    usual, *_, way, _, rivals = (line[1:] for line in live_targets_table(little).rows)
    assert (usual, way, rivals) == (("-", "0 of 0"), ("-", "-"), ("-", "-"))


def test_searches_that_were_asked_for_otherwise_are_not_thrown_together(tmp_path: Path) -> None:
    variants = (replace(JOB, more=("--simulator", "linear")), replace(JOB, trials=41), replace(JOB, seed=2))
    tuned = replace(JOB, more=(*JOB.more, "--tuned-all-reduce"))
    live([JOB, *variants], NOWHERE, tmp_path, print, PlayedTune())
    found_rows = rows(tmp_path)
    assert [(kind.budget, len(searches)) for kind, searches in kinds_of(found_rows).items()] == [
        (40, 1),
        (40, 2),
        (41, 1),
    ]
    assert len(live_table(found_rows).rows) == 3
    assert live_targets_table(found_rows).rows[0][2] == "1 of 1"
    live([tuned], NOWHERE, tmp_path / "tuned", print, PlayedTune())
    assert not live_targets_table(rows(tmp_path / "tuned")).rows, "its best baseline is another"


def test_a_picture_says_in_few_words_what_was_asked_otherwise(tmp_path: Path) -> None:
    common = (*JOB.more, "--rounds", "6")
    long = replace(JOB, more=(*common, "--try-first", "there/" * 20))
    live([replace(JOB, more=common), long], NOWHERE, tmp_path, print, PlayedTune())
    figure = live_picture(rows(tmp_path))
    assert figure is not None
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[0] == "bert-mini@two_racks\nguided "
    assert labels[1].startswith("bert-mini@two_racks\nguided --try-first there/")
    assert max(map(len, "\n".join(labels).splitlines())) < 60


def test_searches_on_another_emulated_network_stand_apart_and_those_on_todays_count(tmp_path: Path) -> None:
    live([JOB, replace(JOB, seed=2), replace(JOB, seed=3)], NOWHERE, tmp_path, print, PlayedTune(0.1))
    earlier = [{**row, "packet_bytes": 1500, "speedup": 1.1} for row in rows(tmp_path)]
    searches = [*earlier, *(row for row in rows(tmp_path) if row["seed"] == 2)]
    assert [row[2] for row in live_table(searches).rows] == [
        "40 --simulator replay, packets of 1500 bytes",
        "40 --simulator replay",
    ]
    assert live_targets_table(searches).rows[1][2] == "2.00 x in bert-mini@two_racks"
    assert live_targets_table(earlier).rows[1][2] == "1.10 x in bert-mini@two_racks"


def test_a_rule_is_held_against_the_same_searches_with_it(tmp_path: Path) -> None:
    without = replace(JOB, without_rule="server_choice")
    alone = replace(JOB, without_rule="bucket_order", trials=41)
    live([JOB, replace(JOB, seed=2)], NOWHERE, tmp_path, print, PlayedTune(0.1))
    live([without, alone], NOWHERE, tmp_path, print, PlayedTune(0.16))
    ((cell, rule, _, seeds, hits, _, middle, less, speedup, slower),) = rules_table(rows(tmp_path)).rows
    assert (cell, rule, seeds) == ("bert-mini@two_racks", "server_choice", "2, 1")
    assert (middle, less) == ("0.50 [0.50, 0.50]", "0.80 [0.80, 0.80]")
    assert (speedup[:4], slower[:4], hits[:5]) == ("2.00", "1.25", "100.0")
    assert live_targets_table(rows(tmp_path)).rows[0][2] == "1 of 1"


def test_a_strategy_moved_is_held_against_the_best_baseline_there_and_the_search_without_it(tmp_path: Path) -> None:
    moved = replace(JOB, more=("--try-first", "there/strategy.json", *JOB.more))
    taught = replace(JOB, more=("--warm-start", "there/checkpoint", "--simulator", "linear"))
    live([moved, JOB, taught], NOWHERE, tmp_path, print, PlayedTune(0.1))
    by_what = {row["more"]: row for row in rows(tmp_path)}
    assert by_what[" ".join(JOB.more)]["given_speedup"] is None
    row = by_what[" ".join(moved.more)]
    assert row["given_speedup"] == pytest.approx(1.25)
    assert row["given_speedup_low"] <= row["given_speedup"] <= row["given_speedup_high"]
    asked, alone = moves_table(rows(tmp_path)).rows
    assert asked[:4] == ("bert-mini@two_racks", "there/strategy.json", "40 --simulator replay", "1")
    assert [ratio[:4] for ratio in asked[4:7]] == ["1.25", "2.00", "2.00"]
    assert asked[7:] == ("3", "2"), "the baseline, then the moved strategy, then a strategy near the best"
    assert alone[:5] == ("bert-mini@two_racks", "there/checkpoint", "40 --simulator linear", "1", "-")
    assert alone[6:] == ("-", "2", "-"), "no search ran with these options and without the checkpoint"


def test_a_search_is_paid_for_after_the_epochs_in_which_it_saves_its_own_time(tmp_path: Path) -> None:
    live([JOB], NOWHERE, tmp_path, print, PlayedTune(0.1))
    (cost,) = live_costs(rows(tmp_path))
    steps = -(-65_269 // (2 * MODEL.batch_size))
    assert cost.steps_an_epoch == steps
    assert cost.training_seconds == pytest.approx(EPOCHS * steps * 0.2)
    assert cost.epochs_to_break_even.value == pytest.approx(600.0 / (steps * 0.1))
    ((*_, share, breaks_even),) = cost_table([cost]).rows
    assert share == f"{100 * 600 / (EPOCHS * steps * 0.2):.2g} %"
    assert breaks_even == f"{600 / (steps * 0.1):.2g}"
    doubtful = replace(cost, speedup=Estimate(1.5, 0.9, 2.0))
    ((*_, doubt),) = cost_table([doubtful]).rows
    assert doubt == f"{600 / (steps * 0.2 / 3):.2g} [{600 / (steps * 0.1):.2g}, never]"
    ((*_, never),) = cost_table([replace(cost, speedup=Estimate(1.0, 0.9, 1.0))]).rows
    assert never == "never"

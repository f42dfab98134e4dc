"""The real command on real emulated clusters: stopped, killed, resumed, and cleaned up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.spec import ModelProfile, RuntimeRecord
from autosync.zoo import build_task
from studies.collect.folder import Folder
from tests.commands.explained_runs import write_profile
from tests.trials.emulate.clusters import needs_root, remains
from tests.tune.jobs import Job, ended
from trials.emulate import down

pytestmark = needs_root

PLAN = """
name: small
models: [mlp]
clusters: [2x200mbit]
strategies: 5
repeat_share: 0.25
repeat_distance: 2
block: 4
warmup_steps: 1
timed_steps: 5
"""
SLOTS = 6


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / "plan.yaml").write_text(PLAN)
    yield Folder(tmp_path)
    down(Folder(tmp_path).cluster_name)


def collect(folder: Folder, *more: str) -> Job:
    return Job(folder.path, "collect", "--plan", "plan.yaml", "--settle", "0", *more, module="studies")


def records(folder: Folder) -> list[RuntimeRecord]:
    return sorted(RecordStore(folder.records).read(), key=lambda record: record.sequence or 0)


def check_gone(folder: Folder) -> None:
    """Check that the visit's process and its cluster end soon after their collection was killed."""
    deadline = time.monotonic() + 20
    while (left := remains(folder.cluster_name) + _visits(folder)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == []


def _visits(folder: Folder) -> list[str]:
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if "studies.collect.visit" in line and str(folder.path) in line]


@pytest.mark.thorough
def test_a_collection_killed_or_interrupted_goes_on_where_it_was_and_ends_with_nothing_left(folder: Folder) -> None:
    first = collect(folder)
    try:
        first.wait_for(f"2/{SLOTS}  mlp@2x200mbit")
        first.kill()
        check_gone(folder)
    finally:
        first.end()
    assert len(records(folder)) >= 2
    second = collect(folder)
    second.wait_for(f"4/{SLOTS}  mlp@2x200mbit")
    second.press_ctrl_c()
    printed = ended(second, 130)
    assert "To resume, run: python -m studies collect --plan plan.yaml --settle 0" in printed
    assert "trials in" in printed
    assert remains(folder.cluster_name) == []
    kept = records(folder)
    printed = ended(collect(folder), 0)
    assert f"{SLOTS - len(kept)} of {SLOTS} trials are left in 1 cells." in printed
    assert f"mlp@2x200mbit     {SLOTS} of {SLOTS}" in printed
    every = records(folder)
    assert [record.sequence for record in every] == list(range(SLOTS))
    assert len({record.strategy.digest for record in every}) == SLOTS - 1
    assert [record.purpose for record in every].count("remeasure") == 1
    assert {record.outcome for record in every} <= {"ok", "stopped"}
    assert len({record.cluster.digest for record in every}) == 1
    links = [link for link in every[0].cluster.links if link.source != link.target]
    assert {link.gbit_per_s.source for link in links} == {"measured"}
    assert remains(folder.cluster_name) == []


@pytest.mark.thorough  # needs a cluster of its own
def test_a_time_budget_ends_a_collection_between_trials(folder: Folder) -> None:
    printed = ended(collect(folder, "--time-budget", "1"), 0)
    assert f"{SLOTS} of {SLOTS} are left." in printed
    assert "To resume, run: python -m studies collect --plan plan.yaml --settle 0 --time-budget 1" in printed
    assert remains(folder.cluster_name) == []


@pytest.mark.thorough  # needs a cluster of its own
def test_paced_passes_follow_a_profile_that_fits_the_model(folder: Folder) -> None:
    (folder.path / "paced.yaml").write_text("pace: {scale: 2}\nnodes: [{count: 2}]\n")
    (folder.path / "plan.yaml").write_text(
        PLAN.replace("2x200mbit", "paced.yaml").replace("strategies: 5", "strategies: 2")
    )
    asked = ("--profile", str(write_profile(folder.path / "h100.json")))
    assert "2 trials in" in ended(collect(folder, *asked), 0)
    every = records(folder)
    assert {record.outcome for record in every} == {"ok"}
    assert {record.model.device_profile.device for record in every if record.model.device_profile} == {"H100"}
    assert min(record.median_seconds or 0.0 for record in every) > 0.2
    changed = ("--out", str(folder.path / "other"), "--profile", str(write_profile(folder.path / "other.json", 32)))
    printed = ended(collect(folder, *changed), 1)
    assert "mlp@paced: The profile of 'H100' does not fit model 'mlp': it was measured with batches of 32" in printed


@pytest.mark.thorough  # needs a cluster of its own
def test_paced_passes_follow_the_profile_that_the_folder_keeps(folder: Folder) -> None:
    (folder.path / "paced.yaml").write_text("pace: {scale: 2}\nnodes: [{count: 2}]\n")
    (folder.path / "plan.yaml").write_text(
        PLAN.replace("2x200mbit", "paced.yaml").replace("strategies: 5", "strategies: 2")
    )
    model = capture(build_task("mlp")).spec
    kept = ModelProfile(0.1, 0.1, {variable.name: 1.0 for variable in model.variables})
    folder.with_profile(replace(model, profile=kept))
    assert "2 trials in" in ended(collect(folder), 0)
    every = records(folder)
    assert [record.model.profile for record in every] == [kept, kept]
    assert min(record.median_seconds or 0.0 for record in every) >= 0.4


@pytest.mark.thorough
def test_two_collections_do_not_share_a_folder(folder: Folder) -> None:
    with folder.held():
        job = collect(folder)
        assert job.status() == 2
    assert "is in use by another command (process" in job.complaint


def test_what_was_asked_wrongly_is_said_before_anything_is_made(folder: Folder) -> None:
    job = collect(folder, "--only", "bert")
    assert job.status() == 2
    assert "collect: --only needs names in the plan, which are mlp, but has 'bert'." in job.complaint
    (folder.path / "plan.yaml").write_text(PLAN.replace("mlp", "mlq"))
    job = collect(folder)
    assert job.status() == 2
    assert "collect: No model is called 'mlq'." in job.complaint
    write_profile(folder.path / "h100.json")
    told = "collect: --profile applies to paced passes, but no node of this cluster is paced; give the nodes a pace"
    for models, refusal in {
        "mlp": told,
        "mlp, bert-mini": "collect: --profile belongs to one model, but here are",
    }.items():
        (folder.path / "plan.yaml").write_text(PLAN.replace("[mlp]", f"[{models}]"))
        job = collect(folder, "--profile", "h100.json")
        assert job.status() == 2
        assert refusal in job.complaint

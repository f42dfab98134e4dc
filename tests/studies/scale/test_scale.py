"""Predictions at scale: every cell is searched once; the page marks them as predicted, with the original's figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from autosync.baselines import BASELINES
from autosync.spec import DeviceProfile, ModelSpec, canonical_json
from studies.commands.bench import command
from studies.scale.cells import results
from studies.scale.clusters import CLUSTERS, SCALES
from studies.scale.searching import decides
from tests import cases

MODEL = cases.ncf_like_model()


@pytest.fixture(name="out")
def _out(tmp_path: Path) -> Path:
    """A folder where a small model replaces the captured one."""
    return with_model(tmp_path / "scale", MODEL)


def with_model(out: Path, model: ModelSpec) -> Path:
    (out / "models").mkdir(parents=True)
    (out / "models" / "ncf.json").write_text(canonical_json(model.to_json()))
    return out


def scale(out: Path, *more: str) -> tuple[int, str]:
    asked = ["scale", "--out", str(out), "--models", "ncf", "--trials", "8", *more]
    done = CliRunner().invoke(command, asked, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def test_a_cell_is_searched_once_and_what_is_found_is_no_slower_than_any_baseline_tried(out: Path) -> None:
    status, said = scale(out, "--clusters", "16x1,A")
    assert status == 0
    assert "ncf on A: 8 trials" in said
    rows = results(out)
    assert [row["cluster"] for row in rows] == ["A", "16x1"]
    for row in rows:
        assert row["computing"] < row["best"] <= min(row["baselines"].values())
        assert (row["trials"], row["passes"]) == (8, "flops")
        assert row["tuned"] <= 1.01 * row["baselines"]["all_reduce_per_variable"]
        assert " by " in row["tuned_label"]
        assert row["search_seconds"] > 0
        assert row["peak_bytes"] > 1e6
        assert sum(row["best_decides"]["shares"].values()) == pytest.approx(1.0)
    assert "8 trials" not in scale(out, "--clusters", "16x1,A")[1]
    assert results(out) == rows


def test_what_is_gathered_is_told_from_what_an_algorithm_adds_up() -> None:
    model, cluster = cases.mlp_model((64, 2048, 2048, 10)), cases.star_cluster()
    wide = replace(model.by_name["dense_1/kernel"], factor_rows=32)
    model = replace(
        model, variables=tuple(wide if variable.name == wide.name else variable for variable in model.variables)
    )
    shares = decides(BASELINES["poseidon"](model, cluster), model)["shares"]
    assert set(shares) == {"gathered", "servers"}
    assert sum(shares.values()) == pytest.approx(1.0)


def test_the_page_says_that_all_is_predicted_and_has_the_original_s_figures_beside(out: Path) -> None:
    scale(out, "--clusters", "A,B-32")
    page = (out / "scale.md").read_text()
    assert "Everything on this page is **predicted**" in page
    assert "`B-32`: 8 nodes with 4 GPUs each, 50 Gbit/s (stated)" in page
    assert "no GPU was measured" in page
    assert "1.2 to 1.6" in (out / "gains.csv").read_text()
    header, *lines = (out / "steps.csv").read_text().splitlines()
    assert header.startswith("model,cluster,passes,parameter_server,")
    assert len(lines) == 2


def test_passes_follow_a_gpu_s_profile_where_one_is_given(out: Path, tmp_path: Path) -> None:
    ready = {variable.name: 0.1 for variable in MODEL.variables}
    profile = DeviceProfile("a GPU", {"torch": "2"}, MODEL.batch_size, "float32", "2026-11-26", 0.1, 0.3, ready)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "ncf.json").write_text(canonical_json(profile.to_json()))
    scale(out, "--clusters", "A", "--profiles", str(tmp_path / "profiles"))
    (row,) = results(out)
    assert row["computing"] == pytest.approx(0.4)
    assert row["passes"] == "a GPU, float32"
    assert "measured on a GPU, float32" in (out / "scale.md").read_text()
    scale(out, "--clusters", "A")
    assert len(results(out)) == 2  # a cell without a profile is another cell


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("--models", "bert"), "--models needs names among bert-large, .*, but has 'bert'"),
        (("--clusters", "A,C"), "--clusters needs names among A, B, .*, but has 'C'"),
        (("--profiles", "nowhere"), "--profiles needs a folder with a file MODEL.json or MODEL_tf32.json per model"),
    ],
)
def test_what_there_is_not_is_refused_in_a_sentence(out: Path, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(Exception, match=message):
        scale(out, *names)


def test_the_scales_are_of_so_many_workers() -> None:
    for count in SCALES:
        for name in (f"{count}x1", f"{count // 8}x8"):
            assert len(CLUSTERS[name].replica_devices) == count
    assert [len(CLUSTERS[name].replica_devices) for name in ("A", "B", "B-32")] == [11, 16, 32]


def test_a_result_that_another_model_left_does_not_count(out: Path) -> None:
    scale(out, "--clusters", "A")
    (out / "models" / "ncf.json").write_text(canonical_json(replace(MODEL, batch_size=512).to_json()))
    assert "ncf on A: 8 trials" in scale(out, "--clusters", "A")[1]
    assert len(results(out)) == 2
    assert json.loads(next((out / "cells").glob("*.json")).read_text())["model"] == "ncf"

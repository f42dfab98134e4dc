"""Predictions with a barrier and without, at scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.spec import canonical_json
from studies.scale.barriers import AT_SCALE, BarrierOrder, page_of, predict, run
from studies.scale.clusters import CLUSTERS
from tests import cases


def test_sixteen_to_1024_workers_are_predicted_with_one_gpu_a_node_and_with_eight() -> None:
    assert AT_SCALE == ("16x1", "64x1", "256x1", "1024x1", "2x8", "8x8", "32x8", "128x8")


@pytest.mark.parametrize("name", ["16x1", "1024x1"])
def test_a_step_without_a_barrier_is_no_slower_than_with_one(name: str) -> None:
    row = predict(cases.mlp_model((1024, 1024, 1024, 10)), CLUSTERS[name])
    assert 0 < row["passes"] < row["free"] <= 1.01 * row["barrier"]
    assert row["free_label"].endswith(", overlapped")


def test_each_cell_is_predicted_once_and_the_page_has_all(tmp_path: Path) -> None:
    out, said = tmp_path / "scale", list[str]()
    (out / "models").mkdir(parents=True)
    (out / "models" / "ncf.json").write_text(canonical_json(cases.mlp_model().to_json()))
    order = BarrierOrder(out, ["ncf"], ["16x1", "2x8"])
    page = run(order, said.append)
    assert run(order, said.append) == page
    assert said == ["ncf on 16x1", "ncf on 2x8"]
    text = page.read_text(encoding="utf-8")
    assert "Everything on this page is **predicted**" in text
    assert "| ncf | 2x8 |" in text
    assert "| 16x1 | 16 | 16 nodes with 1 GPU each, 40 Gbit/s (assumed) | 1 |" in text


def test_gains_are_averaged_over_models() -> None:
    row = {"cluster": "16x1", "passes": 0.01, "default": 0.04, "barrier_label": "a", "free_label": "a, overlapped"}
    rows = [row | {"model": "x", "barrier": 0.02, "free": 0.02}, row | {"model": "y", "barrier": 0.04, "free": 0.01}]
    assert "| 16x1 | 16 | 16 nodes with 1 GPU each, 40 Gbit/s (assumed) | 2 | 2.00 [" in page_of(rows)

"""Plans as users write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.errors import AutosyncError, ClusterError, ModelError
from autosync.stats.cells import CellName, cell_of
from autosync.zoo import MODELS
from studies.collect.plan import cells_of, check_models, cluster_of, read_plan
from studies.collect.schedule import rounds_of
from tests.studies.collect.plans import plan

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "runtimes" / "plan.yaml"


def written(folder: Path, text: str) -> Path:
    file = folder / "plan.yaml"
    file.write_text(text)
    return file


def test_the_shipped_plan_names_five_models_and_four_clusters_and_enough_strategies() -> None:
    shipped = read_plan(SHIPPED)
    check_models(shipped)
    assert set(shipped.models) <= set(MODELS)
    assert len(shipped.models) >= 5
    assert len(shipped.clusters) >= 4
    assert shipped.strategies >= 150
    assert shipped.repeat_share >= 0.1


def test_four_clusters_of_the_shipped_plan_are_paced_and_two_compute_their_passes() -> None:
    shipped = read_plan(SHIPPED)
    clusters = {cell.cluster: cluster_of(shipped, SHIPPED, cell.cluster) for cell in shipped.cells}
    assert {name for name, cluster in clusters.items() if not cluster.paced} == {"uniform_200mbit", "one_slow_node"}
    assert [name for name, cluster in clusters.items() if len(cluster.switches) == 3] == ["paced_two_racks"]
    assert len({node.pace for node in clusters["paced_unlike"].nodes}) > 1
    assert {len(cluster.nodes) for cluster in clusters.values()} == {4}
    assert len(clusters) == 6


def test_the_shipped_plan_for_pytorch_has_paced_clusters_and_a_single_round() -> None:
    file = ROOT / "runtimes" / "pytorch" / "plan.yaml"
    shipped = read_plan(file)
    check_models(shipped)
    assert shipped.framework == "pytorch"
    assert len(shipped.models) == 5
    assert len(shipped.clusters) == 4
    assert all(cluster_of(shipped, file, cell.cluster).paced for cell in shipped.cells)
    assert shipped.strategies >= 60
    assert rounds_of(shipped) == 1


def test_models_must_exist_in_the_plan_s_framework() -> None:
    check_models(plan(models=["digits"]))
    with pytest.raises(ModelError, match=r"^No model is called 'digits' in PyTorch\."):
        check_models(plan(models=["digits"], framework="pytorch"))


def test_cells_are_every_model_on_every_cluster_and_are_told_from_a_record_s_run() -> None:
    wide = plan(models=["bert-mini", "mlp"], clusters=["2x200mbit", "../topologies/two_racks.yaml"])
    assert [str(cell) for cell in wide.cells] == [
        "bert-mini@2x200mbit", "mlp@2x200mbit", "bert-mini@two_racks", "mlp@two_racks",
    ]  # fmt: skip
    assert cell_of(wide.run_of(wide.cells[2])) == CellName("bert-mini", "two_racks")
    assert cell_of("runs-of-a-search-0a1b2c") is None


def test_some_models_and_clusters_can_be_chosen() -> None:
    wide = plan(models=["bert-mini", "mlp"])
    assert cells_of(wide, [], []) == wide.cells
    assert cells_of(wide, ["mlp"], ["3x1gbit"]) == [CellName("mlp", "3x1gbit")]
    with pytest.raises(
        AutosyncError, match=r"--cluster needs names in the plan, which are 2x200mbit, 3x1gbit, but has '4x1gbit'"
    ):
        cells_of(wide, [], ["4x1gbit"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "name: a b\nmodels: [mlp]\nclusters: [2x1gbit]",
            "name: a name must not be empty or contain a slash, @ or space",
        ),
        ("name: a\nmodels: [mlp, mlp]\nclusters: [2x1gbit]", "models: a model may occur once, but 'mlp' occurs twice"),
        (
            "name: a\nmodels: [mlp]\nclusters: [2x1gbit]\nrepeat_share: 1.0",
            "a share must be at least 0 and below 1, but is 1",
        ),
        ("name: a\nmodels: [mlp]\nclusters: [2x1gbit]\nblocks: 3", "blocks: there is no such key"),
        ("name: a\nmodels: [mlp]\nclusters: [two]", "written like 4x200mbit"),
        ("name: a\nmodels: [mlp]\nclusters: [racks.yaml]", "racks.yaml' cannot be read: No such file"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ClusterError) as caught:
        read_plan(written(tmp_path, text))
    assert told in str(caught.value)

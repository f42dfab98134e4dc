"""The parts of a step: they add up to it, and each answers to its own cause."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.baselines import BASELINES
from autosync.cost import REPLAY_PRIORS, Replay, step_bound
from autosync.spec import ClusterSpec, RuntimeRecord, Strategy, TimingProtocol
from autosync.spec.pace import Pace
from autosync.stats.cells import CellName
from studies.proof.outcomes import by_cell, outcomes_of
from studies.proof.page import write_page
from studies.proof.results import ProofResults
from studies.proof.waterfall import PARTS, Waterfall, parts_of, waterfall_picture, waterfall_table, waterfalls
from tests.cases import rack_cluster, tied_model
from tests.studies.proof.test_outcomes import BERT, USUAL, finals, method

PASS_SECONDS, STEP_SECONDS = 0.1, 0.3
MODEL = replace(tied_model(rows=20_011), name="bert-mini")


def paced(cluster: ClusterSpec) -> ClusterSpec:
    pace = Pace(scale=0.0, fixed_seconds=PASS_SECONDS)
    return replace(cluster, nodes=tuple(replace(node, pace=pace) for node in cluster.nodes))


CLUSTER = paced(rack_cluster())


def strategy(name: str = "all_reduce_25mb") -> Strategy:
    return BASELINES[name](MODEL, CLUSTER)


def test_the_parts_add_up_to_the_measured_step() -> None:
    parts = parts_of(MODEL, CLUSTER, strategy(), STEP_SECONDS)
    assert tuple(parts) == tuple(PARTS)
    assert sum(parts.values()) == pytest.approx(STEP_SECONDS)
    assert parts["passes"] == pytest.approx(PASS_SECONDS)
    assert parts["passes"] + parts["links"] == pytest.approx(step_bound(MODEL, CLUSTER, overlaps=True).seconds)
    (predicted,) = Replay(REPLAY_PRIORS["pytorch"]).predict(MODEL, CLUSTER, [strategy()])
    assert parts["rest"] == pytest.approx(STEP_SECONDS - math.exp(predicted))
    assert min(parts["schedule"], parts["messages"], parts["processors"]) > 0


def test_a_barrier_counts_as_order() -> None:
    free = replace(strategy(), overlap_next_forward=True)
    with_barrier, without = (parts_of(MODEL, CLUSTER, which, STEP_SECONDS) for which in (strategy(), free))
    assert with_barrier["order"] > without["order"] + 1e-3
    assert with_barrier["schedule"] == pytest.approx(without["schedule"], abs=1e-3)


def with_cores(cores: float) -> ClusterSpec:
    return replace(CLUSTER, nodes=tuple(replace(node, cores=cores) for node in CLUSTER.nodes))


def test_faster_processors_shorten_the_part_of_processors_alone() -> None:
    slow, fast = (parts_of(MODEL, with_cores(cores), strategy(), STEP_SECONDS) for cores in (1.0, 8.0))
    assert fast["processors"] < slow["processors"] - 1e-3
    for part in ("passes", "links", "schedule", "order", "messages"):
        assert fast[part] == pytest.approx(slow[part], abs=1e-3)  # releases of gradients take some processor time


def record() -> RuntimeRecord:
    return RuntimeRecord(
        MODEL, CLUSTER, strategy(), TimingProtocol(), "ok", "search", "guided", "proof-0/" + str(BERT), 0, 0.0,
        step_seconds=(STEP_SECONDS,), framework="pytorch",
    )  # fmt: skip


def test_the_page_shows_the_cells_whose_trials_are_on_disk(tmp_path: Path) -> None:
    rows = finals(guided=150.0, **USUAL)
    rows[0]["strategy"] = strategy().digest
    results = ProofResults.create(tmp_path)
    results.finals.write("one", rows)
    results.methods.write("one", [method("guided", [0.2, 0.15])])
    assert waterfalls(by_cell(outcomes_of(rows, [])), []) == []
    results.records.append(record())
    text = write_page(tmp_path).read_text(encoding="utf-8")
    assert "| paced_two_racks | bert-mini | 100.0 | " in text
    assert (tmp_path / "report" / "waterfall.png").stat().st_size > 1000


def test_at_most_five_cells_are_shown_those_farthest_above_their_bounds_first() -> None:
    cells = [CellName("bert-mini", f"cluster-{place}") for place in range(6)]
    rows, records = [], []
    for place, cell in enumerate(cells):
        of_cell = finals(cell, guided=150.0 + place, **USUAL)
        of_cell[0]["strategy"] = strategy().digest
        rows += of_cell
        records.append(replace(record(), run=f"proof-0/{cell}"))
    shown = waterfalls(by_cell(outcomes_of(rows, [])), records)
    assert [fall.cell for fall in shown] == cells[:0:-1]


def test_a_negative_part_goes_back() -> None:
    fall = Waterfall(BERT, dict(zip(PARTS, (0.1, 0.05, 0.02, -0.03, 0.01, 0.01, 0.0), strict=True)))
    assert waterfall_table([fall]).rows == [
        ("paced_two_racks", "bert-mini", "100.0", "50.0", "20.0", "-30.0", "10.0", "10.0", "0.0", "160.0")
    ]
    (axis,) = waterfall_picture([fall]).axes
    bars = [(bar.get_x(), bar.get_width()) for bar in axis.patches]
    assert bars[3] == pytest.approx((170.0, -30.0))
    assert bars[4] == pytest.approx((140.0, 10.0))

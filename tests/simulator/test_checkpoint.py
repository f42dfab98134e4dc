"""A checkpoint is two plain files; every fault in a checkpoint is reported in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator
from autosync.simulator import CheckpointError, LearnedSimulator
from autosync.spec import ClusterSpec, ModelSpec, Pace, RuntimeRecord, Strategy
from tests.contracts.test_simulator_contract import CLUSTER, MODEL, records
from tests.space.samples import sampled


class Constant:
    """A base simulator without state."""

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> np.ndarray:  # noqa: ARG002
        return np.zeros(len(strategies))

    def fit(self, records: Sequence[RuntimeRecord]) -> None:
        """Do nothing."""


@pytest.fixture(scope="module")
def learned() -> LearnedSimulator:
    made = LearnedSimulator(AnalyticSimulator())
    made.fit(records(5))
    return made


@pytest.fixture
def saved(tmp_path: Path, learned: LearnedSimulator) -> Path:
    learned.save(tmp_path / "deep" / "checkpoint")
    return tmp_path / "deep" / "checkpoint"


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    document = json.loads((folder / "simulator.json").read_text())
    change(document)
    (folder / "simulator.json").write_text(json.dumps(document))


def test_a_checkpoint_is_one_json_and_one_safetensors_file(saved: Path) -> None:
    assert sorted(file.name for file in saved.iterdir()) == ["simulator.json", "simulator.safetensors"]
    document = json.loads((saved / "simulator.json").read_text())
    assert document["base"]["coefficients"] == LearnedSimulator.load(saved).base.state()["coefficients"]


def test_a_checkpoint_is_written_over_an_older_one(saved: Path) -> None:
    newer = LearnedSimulator(AnalyticSimulator())
    newer.fit(records(10))
    newer.save(saved)
    strategies = sampled(MODEL, CLUSTER, 3)
    result = LearnedSimulator.load(saved).predict_with_spread(MODEL, CLUSTER, strategies)
    np.testing.assert_array_equal(result, newer.predict_with_spread(MODEL, CLUSTER, strategies))


def test_a_checkpoint_knows_of_what_kinds_its_times_are_and_one_of_before_is_of_real_ones(saved: Path) -> None:
    learned = LearnedSimulator.load(saved)
    assert learned.kinds == ("real",)
    pace = Pace(0.0, 0.1)
    paced = replace(CLUSTER, nodes=tuple(replace(node, pace=pace) for node in CLUSTER.nodes))
    learned.fit([replace(record, cluster=paced) for record in records(5)])
    learned.save(saved)
    assert LearnedSimulator.load(saved).kinds == ("paced-recorded", "real")
    edit(saved, lambda document: document.pop("kinds"))
    assert LearnedSimulator.load(saved).kinds == ("real",)


def test_a_base_without_state_must_be_handed_over_again(tmp_path: Path) -> None:
    learned = LearnedSimulator(Constant())
    learned.fit(records(5))
    learned.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"has no state of its base simulator; pass that simulator as `base`\."):
        LearnedSimulator.load(tmp_path)
    strategies = sampled(MODEL, CLUSTER, 3)
    result = LearnedSimulator.load(tmp_path, Constant()).predict(MODEL, CLUSTER, strategies)
    np.testing.assert_array_equal(result, learned.predict(MODEL, CLUSTER, strategies))


def test_a_missing_checkpoint_says_what_one_is(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"A checkpoint must be a folder with simulator\.json and simulator\.safetensors"
    ):
        LearnedSimulator.load(tmp_path / "nowhere")


def test_tensors_of_another_checkpoint_are_refused(saved: Path) -> None:
    (saved / "simulator.safetensors").write_bytes(b"other")
    with pytest.raises(CheckpointError, match=r"must be the file that simulator\.json was written with"):
        LearnedSimulator.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update(format="autosync.simulator/9"), "not 'autosync.simulator/9'; fit"),
        (
            lambda document: document.update(inputs_version="0.0"),
            r"has inputs of version 0\.0, but this program needs",
        ),
        (lambda document: document["inputs"].update(pooled=["other"]), "fit the simulator again"),
        (
            lambda document: document.update(members=document["members"] + 1),
            r"The checkpoint is damaged \('level'\); fit the simulator again\.",
        ),
        (lambda document: document.update(network="cnn"), r"damaged \(Unknown network 'cnn'. Known: linear, rnn"),
        (lambda document: document.update(kinds="real"), r"The checkpoint is damaged \("),
        (lambda document: document.pop("spread"), r"The checkpoint is damaged \('spread'\)"),
        (lambda document: document.update(spread=[1]), r"The checkpoint is damaged \("),
        (lambda document: document.update(members={"a": [1]}), r"The checkpoint is damaged \("),
        (lambda document: document.update(settings={"epochs": [{}]}), r"The checkpoint is damaged \("),
        (lambda document: document.update(network=[[1]]), r"The checkpoint is damaged \("),
        (lambda document: document.update(format="x" * 10_000_000), r"not 'x{76}\.\.\.; fit"),
        (lambda document: document.update(base={}), r"The checkpoint is damaged \(The state of an AnalyticSimulator"),
    ],
)
def test_a_document_that_cannot_be_used_says_why(saved: Path, change: Callable[[Any], Any], message: str) -> None:
    edit(saved, change)
    with pytest.raises(CheckpointError, match=message):
        LearnedSimulator.load(saved)

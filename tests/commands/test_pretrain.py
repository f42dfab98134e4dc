"""The command that makes a checkpoint for searches to start from, and the shipped checkpoint."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

from autosync.commands.pretrain import main
from autosync.cost import Replay
from autosync.dataset import RecordStore
from autosync.pretraining.metrics import METRICS
from autosync.simulator import LearnedSimulator, shipped_checkpoint
from tests.space.samples import sampled
from tests.studies.evaluation.made_up import CLUSTERS, MODELS, records

MOST_BYTES = 1_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that the command wrote from records of four cells, and the command's output."""
    store = RecordStore.create(tmp_path_factory.mktemp("data") / "records")
    for record in records(40, 3):
        store.append(record)
    store.compact()
    printed, out = io.StringIO(), tmp_path_factory.mktemp("out") / "one"
    with contextlib.redirect_stdout(printed):
        assert main(["--data", str(store.directory.parent), "--network", "linear", "--out", str(out)]) == 0
    return out, printed.getvalue()


@pytest.mark.thorough
def test_a_dataset_becomes_a_small_checkpoint_with_a_card(made: tuple[Path, str]) -> None:
    out, printed = made
    assert "pairwise" in printed
    assert f"MB in {out}" in printed
    files = list(out.iterdir())
    assert sorted(file.name for file in files) == ["card.json", "simulator.json", "simulator.safetensors"]
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    card = json.loads((out / "card.json").read_text())
    assert (card["network"], card["seed"], len(card["cells"])) == ("linear", 0, 4)
    assert set(METRICS) <= set(card["mean"])
    assert {cell["cell"] for cell in card["cells"]} == {f"{model}@{name}" for model in MODELS for name in CLUSTERS}


@pytest.mark.thorough
def test_what_it_learned_ranks_strategies_that_it_never_saw(made: tuple[Path, str]) -> None:
    learned, card = LearnedSimulator.load(made[0]), json.loads((made[0] / "card.json").read_text())
    assert (learned._start.record_count, learned._start.data_digest) == (card["records"], card["data_digest"])
    model, cluster = MODELS["mlp"], CLUSTERS["three"]
    others = sampled(model, cluster, 20)
    assert (learned.predict(model, cluster, others) != Replay().predict(model, cluster, others)).any()
    assert card["mean"]["pairwise"] > 0.8


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data", "nowhere"], "pretrain: --data needs a folder of records, but there is no folder nowhere."),
        (["--network", "cnn"], "pretrain: Invalid value for '--network': 'cnn' is not one of 'linear', 'rnn', "),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(sentence)
    assert len(said.splitlines()) == 1


def test_without_a_checkpoint_in_the_program_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("autosync.simulator.saved.PRETRAINED", str(tmp_path))
    assert shipped_checkpoint("real") is None


@pytest.mark.parametrize("kind", ["real", "paced-recorded"])
def test_the_checkpoint_that_comes_with_the_program_is_small_and_can_be_started_from(kind: str) -> None:
    folder = shipped_checkpoint(kind)
    assert folder is not None
    assert sum(path.stat().st_size for path in folder.iterdir()) < MOST_BYTES
    learned, card = LearnedSimulator.load(folder), json.loads((folder / "card.json").read_text())
    assert (card["network"], card["data_digest"]) == (learned.network, learned._start.data_digest)
    assert learned.kinds == (kind,)
    model, cluster = MODELS["mlp"], CLUSTERS["three"]
    assert np.isfinite(learned.predict(model, cluster, sampled(model, cluster, 5))).all()

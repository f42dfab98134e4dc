"""Very many records: a sample judges, all are streamed into the fit, and several workers fit as one does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosync.commands.evaluate import main as evaluate
from autosync.commands.pretrain import main as pretrain
from autosync.dataset import RecordStore, split_of
from autosync.engine.version import ENGINE
from autosync.studies.evaluation import survey as looking
from autosync.studies.evaluation.cells import EvaluationError, measured_cells
from autosync.studies.evaluation.pretraining import card_of, pretrained, pretrained_by_stream
from autosync.studies.evaluation.sources import Source, opened
from autosync.studies.evaluation.workers import TOLERANCE
from tests.studies.evaluation.made_up import records


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    store = RecordStore.create(folder / "records")
    for record in records(40, 4):
        store.append(record)
    store.compact()
    return folder


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every folder counts as large here."""
    monkeypatch.setattr(looking, "STREAMED_BYTES", 0)


@pytest.fixture(scope="module", autouse=True)
def local_ray() -> Iterator[None]:
    import ray

    ray.init(num_cpus=3, include_dashboard=False, configure_logging=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_a_survey_tells_what_there_is_and_what_is_in_memory(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = records(40, 4)
    with opened(data) as source:
        assert source.survey is not None
        assert (len(source.survey), source.is_whole, list(source.in_words())) == (len(known), True, [])
        order = sorted(known, key=lambda each: (each.started_at, each.cluster.digest, each.model.digest))
        assert (
            sorted(source.records, key=lambda each: (each.started_at, each.cluster.digest, each.model.digest)) == order
        )
    older = Source([replace(known[0], versions={}), *known[1:3]])
    assert [*older.in_words()] == [
        f"The present engine is of version {ENGINE}, and may take other times than these records say: "
        f"1 of version unknown, 2 of version {ENGINE}."
    ]
    monkeypatch.setattr(looking, "MOST_STRATEGIES", 12)
    monkeypatch.setattr(looking, "MOST_TRIALS", 1)
    with opened(data) as source:
        assert (len(source.records), source.is_whole) == (4 * 12, False)
        assert f"Of {len(known)} timed records, 48 are a sample" in next(source.in_words())
        by_cell = {(each.model.digest, each.cluster.digest) for each in source.records}
        assert len(by_cell) == 4
        for model, cluster in by_cell:
            own = {
                each.strategy.digest for each in known if (each.model.digest, each.cluster.digest) == (model, cluster)
            }
            found = {each.strategy.digest for each in source.records
                     if (each.model.digest, each.cluster.digest) == (model, cluster)}  # fmt: skip
            assert found == set(sorted(own)[:12]), "which they are follows from the strategies alone"


def test_evaluating_many_records_is_as_with_all_in_memory(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", str(data), "--quick", "--only", "accuracy", "--simulators", "analytic", "--out"]
    assert evaluate([*arguments, str(tmp_path / "streamed")]) == 0
    monkeypatch.setattr(looking, "STREAMED_BYTES", 2**40)
    assert evaluate([*arguments, str(tmp_path / "whole")]) == 0
    pages = [(tmp_path / each / "evaluation.md").read_text() for each in ("streamed", "whole")]
    assert pages[0] == pages[1]
    assert "Passed over" not in capsys.readouterr().err


def test_a_stream_of_all_records_teaches_what_they_teach_in_memory(data: Path) -> None:
    cells, _ = measured_cells(records(40, 4), split_of)
    wanted = card_of(pretrained(cells, "linear", 0), cells)
    with opened(data) as source:
        assert source.survey is not None
        learned = pretrained_by_stream(cells, source.survey, "linear", 0)
    found = card_of(learned, cells)
    assert found["records"] == wanted["records"]
    assert (found["cells"], found["mean"]) == (wanted["cells"], wanted["mean"])


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_fit_what_one_process_fits(data: Path, workers: int) -> None:
    cells, _ = measured_cells(records(40, 4), split_of)
    alone = pretrained(cells, "linear", 0)
    with opened(data, workers=workers) as source:
        assert source.survey is not None
        together = pretrained_by_stream(cells, source.survey, "linear", 0, workers)
    assert card_of(together, cells)["cells"] == card_of(alone, cells)["cells"]
    for cell in cells:
        about, strategies = cell.measurements[0].trials[0], [each.trials[0].strategy for each in cell.tested]
        found, wanted = (each.predict_with_spread(about.model, about.cluster, strategies) for each in (together, alone))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.thorough
def test_the_command_fits_with_workers_and_refuses_what_they_cannot(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pretrain(["--data", str(data), "--out", str(tmp_path / "one")]) == 0
    assert pretrain(["--data", str(data), "--out", str(tmp_path / "two"), "--workers", "2"]) == 0
    cards = [json.loads((tmp_path / each / "card.json").read_text()) for each in ("one", "two")]
    assert cards[0]["cells"] == cards[1]["cells"]
    said = capsys.readouterr().out
    assert "View detailed results" not in said
    assert pretrain(["--data", str(data), "--out", str(tmp_path / "x"), "--workers", "99"]) == 2
    assert pretrain(["--data", str(data), "--out", str(tmp_path / "x"), "--workers", "2", "--network", "rnn"]) == 2
    refused = capsys.readouterr().err.splitlines()
    assert refused == [
        "pretrain: --workers 99 need a processor each, and one beside, but Ray has 3 in all; ask for fewer.",
        "pretrain: Records are streamed into a new network 'linear', not into 'rnn'.",
    ]


def test_kinds_of_times_are_not_mixed(tmp_path: Path) -> None:
    store = RecordStore.create(tmp_path)
    few = records(3, 0)[:4]
    kinds = [replace(few[0], outcome="failed", reason="x", step_seconds=()), *few[1:]]
    for each in kinds:
        store.append(each)
    with opened(tmp_path) as source:
        assert len(source.records) == 3, "what holds no step time is none to judge by"
    with (
        pytest.raises(EvaluationError, match=r"--kind paced-held has no record in .*, whose records are real\."),
        opened(tmp_path, "paced-held"),
    ):
        pass

"""Very many records: a sample for evaluation, all records streamed into the fit, and several workers with one
result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosync.commands.pretrain import main as pretrain
from autosync.dataset import RecordStore, split_of
from autosync.engine.core.versions import ENGINE, VERSIONS
from autosync.pretraining import survey as looking
from autosync.pretraining.cells import EvaluationError, build_cells
from autosync.pretraining.pretraining import card_of, fit_by_stream, fit_in_memory
from autosync.pretraining.sources import Source, open_source
from autosync.pretraining.workers import TOLERANCE
from studies.commands.evaluate import main as evaluate
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
    """Treat every folder as large."""
    monkeypatch.setattr(looking, "STREAMED_BYTES", 0)


@pytest.fixture(scope="module", autouse=True)
def local_ray() -> Iterator[None]:
    import ray

    ray.init(num_cpus=3, include_dashboard=False, configure_logging=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_a_survey_tells_what_there_is_and_what_is_in_memory(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = records(40, 4)
    with open_source(data) as source:
        assert source.survey is not None
        assert (len(source.survey), source.is_whole, list(source.in_words())) == (len(known), True, [])
        order = sorted(known, key=lambda record: (record.started_at, record.cluster.digest, record.model.digest))
        assert (
            sorted(source.records, key=lambda record: (record.started_at, record.cluster.digest, record.model.digest))
            == order
        )
    older = Source([replace(known[0], versions={}), *known[1:3]])
    assert [*older.in_words()] == [
        f"The present engine has version {ENGINE}; its times may differ from those of these records: "
        f"1 of version unknown, 2 of version {ENGINE}."
    ]
    monkeypatch.setattr(looking, "MOST_STRATEGIES", 12)
    monkeypatch.setattr(looking, "MOST_TRIALS", 1)
    with open_source(data) as source:
        assert (len(source.records), source.is_whole) == (4 * 12, False)
        assert f"The evaluation uses a sample of 48 of {len(known)} timed records" in next(source.in_words())
        by_cell = {(record.model.digest, record.cluster.digest) for record in source.records}
        assert len(by_cell) == 4
        for model, cluster in by_cell:
            expected = {
                record.strategy.digest
                for record in known
                if (record.model.digest, record.cluster.digest) == (model, cluster)
            }
            result = {record.strategy.digest for record in source.records
                     if (record.model.digest, record.cluster.digest) == (model, cluster)}  # fmt: skip
            assert result == set(sorted(expected)[:12]), "the strategies alone determine the sample"


def test_evaluating_many_records_is_as_with_all_in_memory(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", str(data), "--quick", "--only", "accuracy", "--simulators", "analytic", "--out"]
    assert evaluate([*arguments, str(tmp_path / "streamed")]) == 0
    monkeypatch.setattr(looking, "STREAMED_BYTES", 2**40)
    assert evaluate([*arguments, str(tmp_path / "whole")]) == 0
    pages = [(tmp_path / folder / "evaluation.md").read_text() for folder in ("streamed", "whole")]
    assert pages[0] == pages[1]
    assert "Skipped" not in capsys.readouterr().err


def test_a_stream_of_all_records_teaches_what_they_teach_in_memory(data: Path) -> None:
    cells, _ = build_cells(records(40, 4), split_of)
    wanted = card_of(fit_in_memory(cells, "linear", 0), cells)
    with open_source(data) as source:
        assert source.survey is not None
        learned = fit_by_stream(cells, source.survey, "linear", 0)
    result = card_of(learned, cells)
    assert result["records"] == wanted["records"]
    assert (result["cells"], result["mean"]) == (wanted["cells"], wanted["mean"])


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_fit_what_one_process_fits(data: Path, workers: int) -> None:
    cells, _ = build_cells(records(40, 4), split_of)
    alone = fit_in_memory(cells, "linear", 0)
    with open_source(data, workers=workers) as source:
        assert source.survey is not None
        together = fit_by_stream(cells, source.survey, "linear", 0, workers)
    assert card_of(together, cells)["cells"] == card_of(alone, cells)["cells"]
    for cell in cells:
        about, strategies = (
            cell.measurements[0].trials[0],
            [measurement.trials[0].strategy for measurement in cell.test_measurements],
        )
        result, wanted = (
            simulator.predict_with_spread(about.model, about.cluster, strategies) for simulator in (together, alone)
        )
        np.testing.assert_allclose(result, wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.thorough
def test_the_command_fits_with_workers_and_refuses_what_they_cannot(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pretrain(["--data", str(data), "--out", str(tmp_path / "one")]) == 0
    assert pretrain(["--data", str(data), "--out", str(tmp_path / "two"), "--workers", "2"]) == 0
    cards = [json.loads((tmp_path / folder / "card.json").read_text()) for folder in ("one", "two")]
    assert cards[0]["cells"] == cards[1]["cells"]
    output = capsys.readouterr().out
    assert "View detailed results" not in output
    assert pretrain(["--data", str(data), "--out", str(tmp_path / "x"), "--workers", "99"]) == 2
    assert pretrain(["--data", str(data), "--out", str(tmp_path / "x"), "--workers", "2", "--network", "rnn"]) == 2
    refused = capsys.readouterr().err.splitlines()
    assert refused == [
        "pretrain: --workers 99 needs a CPU for each worker and one more, but Ray has 3 in total; choose fewer.",
        "pretrain: Records can only be streamed into a new network 'linear', not into 'rnn'.",
    ]


def test_kinds_of_times_are_not_mixed(tmp_path: Path) -> None:
    store = RecordStore.create(tmp_path)
    few = records(3, 0)[:4]
    kinds = [replace(few[0], outcome="failed", reason="x", step_seconds=()), *few[1:]]
    for kind in kinds:
        store.append(kind)
    with open_source(tmp_path) as source:
        assert len(source.records) == 3, "a record without a step time cannot be used"
    with (
        pytest.raises(
            EvaluationError,
            match=r"--kind paced-held has no record in .*, whose records are real; choose one of these\.",
        ),
        open_source(tmp_path, "paced-held"),
    ):
        pass
    store.append(replace(few[1], framework="pytorch", versions={**few[1].versions, "autosync.engine": "99"}))
    with open_source(tmp_path, framework="pytorch") as source:
        assert [record.kind for record in source.records] == ["pytorch-real"]
        assert list(source.in_words()) == [
            f"The present engine has version {VERSIONS['pytorch']}; its times may differ from those of these records: "
            "1 of version 99."
        ]

"""The card of the whole dataset, and its loaders."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.engine.core.versions import VERSIONS
from autosync.errors import DatasetError
from autosync.spec import RuntimeRecord
from studies.collect.dataset_card import PANDAS, RAY, SPLIT, read_rows, write_dataset_card
from tests.dataset.examples import example_record, failed_record

TORCH = {"autosync.engine": str(VERSIONS["pytorch"])}


def pytorch_record(index: int) -> RuntimeRecord:
    return replace(example_record(index, run="pytorch/mlp@2x1gbit"), framework="pytorch", versions=TORCH)


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    """Four records of TensorFlow, two of them in two folders, and three of PyTorch's present engine."""
    root = tmp_path / "runtimes"
    for folder, records in {
        root / "records": [example_record(0), example_record(1), failed_record(2)],
        root / "bench" / "records": [example_record(0), example_record(1), example_record(3)],
        root / "pytorch" / "records": [pytorch_record(number) for number in range(3)],
    }.items():
        folder.parent.mkdir(parents=True, exist_ok=True)
        store = RecordStore.create(folder)
        for record in records:
            store.append(record)
    return root


def printed(code: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    monkeypatch.chdir(folder)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    return out.getvalue()


def test_a_record_counts_once_even_if_two_folders_have_it(root: Path) -> None:
    rows = read_rows(root)
    assert len(rows) == 7
    assert rows.present.sum() == 3
    assert rows.timed.sum() == 6
    assert set(rows.folder) == {"runtimes", "runtimes/bench", "runtimes/pytorch"}


def test_the_card_states_counts_schema_splits_and_licence(root: Path) -> None:
    text = write_dataset_card(root).read_text(encoding="utf-8")
    assert "**7 records, 3 of them of the present engines** (goal: 10000), 3 of these with a step time." in text
    assert f"| pytorch | {VERSIONS['pytorch']} | yes | real | runtimes/pytorch | 3 | 3 | 3 | 2023-11-14 |" in text
    assert "| tensorflow | unknown | no | real | runtimes/bench |" in text
    assert "Clusters of pytorch in collections: 2x1gbit." in text
    assert "| `step_seconds` | list<item: double> | s | time of each timed step, in order | 1 |" in text
    assert "Apache 2.0" in text
    for code in (PANDAS, RAY, SPLIT):
        assert f"```python\n{code}\n```" in text


def test_the_loader_with_pandas_reads_every_record_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = printed(f"{PANDAS}\n{SPLIT}\nprint(len(rows), sorted(rows.split.unique()))", monkeypatch, root.parent)
    assert "mlp" in said
    assert said.splitlines()[-1].startswith("7 [")


def test_the_split_of_the_card_is_that_of_the_program(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = "from autosync.dataset import split_of\nprint((rows.strategy_digest.map(split_of) == rows.split).all())"
    assert printed(f"{PANDAS}\n{SPLIT}\n{check}", monkeypatch, root.parent).splitlines()[-1] == "True"


@pytest.mark.thorough  # Ray is started
def test_the_loader_with_ray_data_runs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False, log_to_driver=False)
    try:
        assert "mlp" in printed(RAY, monkeypatch, root.parent)
    finally:
        ray.shutdown()


def test_without_records_there_is_no_card(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"A data card needs records, but no folder below .* has any"):
        write_dataset_card(tmp_path)

"""The notebooks in `examples` run in a kernel, where an event loop is running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source_tree import ROOT

nbformat = pytest.importorskip("nbformat", reason="nbformat is missing; install the extra `dev`")
nbclient = pytest.importorskip("nbclient", reason="nbclient is missing; install the extra `dev`")
pytest.importorskip("ipykernel", reason="ipykernel is missing; install the extra `dev`")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["torch_search", "keras_search"])
def test_a_notebook_shows_a_result_a_table_and_a_picture(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "a notebook is kept without outputs"
    client = nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    search, table, picture, last = map(outputs_of, cells[-4:])
    assert "Search space default: " in search["text"]
    assert "   6/6  " in search["text"]
    (line,) = [output.data for output in cells[-4].outputs if output.output_type == "display_data"]
    assert "trial 6 of 6" in line["text/html"]
    assert "<table>" in search["text/html"]
    assert "dataframe" in table["text/html"]
    assert len(picture["image/png"]) > 1000
    assert last["text/plain"]
    assert (tmp_path / "runs/notebook/strategy.json").exists()


def outputs_of(cell: Any) -> dict[str, str]:
    """The printed text of a cell, and its data by kind."""
    data: dict[str, str] = {"text": ""}
    for output in cell.outputs:
        data["text"] += output.get("text", "")
        data |= output.get("data", {})
    return data

"""The table of honoured arguments of `compile` and `Model.fit` names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows() -> list[list[str]]:
    """Return the cells of the table's rows."""
    page = (ROOT / "docs" / "own-model.md").read_text()
    section = page.split("\n## What `compile` and `Model.fit` honour\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if row[0] != "feature" and set(row[0]) != {"-"}]


def test_each_row_says_what_happens_and_names_a_test_that_exists() -> None:
    assert len(rows()) > 20
    for cells in rows():
        feature, here, test = cells
        assert re.match(r"(supported|refused|differs)\b", here), f"{feature}: {here}"
        file, _, name = test.strip("`").partition("::")
        tree = ast.parse((ROOT / file).read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{feature}: {test}"


def test_no_feature_stands_twice() -> None:
    features = [cells[0] for cells in rows()]
    assert len(set(features)) == len(features)

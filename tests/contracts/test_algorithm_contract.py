"""An all-reduce algorithm is a row and a layout file of its name; without moves, it has a file in the engine."""

from __future__ import annotations

import json

import pytest

from autosync.layout.all_reduce import layout_of
from autosync.spec.algorithms import ALGORITHM_ROWS, ALGORITHMS, PLACED_ALGORITHMS, SEEN_AS
from tests.architecture.source_tree import ROOT
from tests.architecture.test_source_files import bound, parsed

TABLE = "autosync/spec/algorithms.py"
SHIPPED = "autosync/simulator/pretrained/real/simulator.json"
LAYOUT, ENGINE = "autosync/layout/all_reduce", "autosync/engine/tensorflow/sync/all_reduce"


def files_that_offer(folder: str, offered: str) -> set[str]:
    """Return the names of the files in `folder` that define `offered`; all other files are helpers."""
    found = (file.relative_to(ROOT) for file in (ROOT / folder).glob("[!_]*.py"))
    return {file.stem for file in found if offered.format(name=file.stem) in bound(parsed(file))}


def faults(names: set[str], folder: str, offered: str, there: set[str]) -> list[str]:
    """Return the faults of algorithms with these names, given the files `there` that define `offered`."""
    found = []
    for name in sorted(names - there):
        defined = offered.format(name=name)
        found.append(f"{name!r} has a row in {TABLE}, but there is no {folder}/{name}.py that defines {defined}.")
    return found + [f"{folder}/{name}.py is there, but {name!r} has no use for it." for name in sorted(there - names)]


def test_each_row_has_its_file_and_each_file_its_row() -> None:
    missing = faults(set(ALGORITHMS), LAYOUT, "LAID_OUT", files_that_offer(LAYOUT, "LAID_OUT"))
    assert not missing, "\n".join(missing)


def test_the_engine_has_a_file_for_what_is_not_made_of_moves() -> None:
    without = {name for name in ALGORITHMS if layout_of(name).moves is None}
    missing = faults(without, ENGINE, "{name}_mean", files_that_offer(ENGINE, "{name}_mean"))
    assert not missing, "\n".join(missing)


def test_what_is_missing_is_said() -> None:
    assert faults({"ring", "star"}, ENGINE, "{name}_mean", {"ring", "line"}) == [
        f"'star' has a row in {TABLE}, but there is no {ENGINE}/star.py that defines star_mean.",
        f"{ENGINE}/line.py is there, but 'line' has no use for it.",
    ]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_shipped_simulator_is_told_of_each(name: str) -> None:
    known = json.loads((ROOT / SHIPPED).read_text(encoding="utf-8"))["inputs"]["buckets"]
    assert SEEN_AS.get(name, name) in known, (
        f"The shipped simulator was fitted without inputs of {name!r}. Say in {TABLE} which of the others it is "
        f"`seen_as`, or fit the simulator anew: its inputs are {known}."
    )


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_row_and_its_files_are_of_use(name: str) -> None:
    row = ALGORITHM_ROWS[name]
    assert row.name == name
    assert row.in_words
    assert row.placed == (layout_of(name).moves is not None)
    assert layout_of(name).moves or layout_of(name).closed_form


def test_the_order_is_kept() -> None:
    """Random draws follow the order of the table, so new algorithms must come last."""
    known = (
        "ring",
        "tree",
        "halving_doubling",
        "rabenseifner",
        "hierarchical",
        "collective",
        "blueconnect",
        "direct",
        "fitted",
    )
    assert ALGORITHMS[: len(known)] == known
    assert PLACED_ALGORITHMS[:5] == known[:5]

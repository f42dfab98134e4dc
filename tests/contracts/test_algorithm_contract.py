"""An all-reduce algorithm is a row, a file of its traffic and a file of the engine, all of one name, and no more."""

from __future__ import annotations

import json

import pytest

from autosync.layout.all_reduce import laid_out
from autosync.spec.algorithms import ALGORITHM_ROWS, ALGORITHMS, PLACED_ALGORITHMS, SEEN_AS
from tests.architecture.source_tree import ROOT
from tests.architecture.test_source_files import bound, parsed

TABLE = "autosync/spec/algorithms.py"
SHIPPED = "autosync/simulator/pretrained/simulator.json"
OFFERED_BY = {"autosync/layout/all_reduce": "LAID_OUT", "autosync/engine/sync/all_reduce": "{name}_mean"}
"""What an algorithm's file offers in each folder; files without it are no algorithm's, but help those that are."""


def files_of_algorithms(folder: str, offered: str) -> set[str]:
    """Names of the files in `folder` that offer what an algorithm's file does."""
    found = (file.relative_to(ROOT) for file in (ROOT / folder).glob("[!_]*.py"))
    return {file.stem for file in found if offered.format(name=file.stem) in bound(parsed(file))}


def faults(names: set[str], files: dict[str, set[str]]) -> list[str]:
    """What is missing of algorithms with rows of these names and these files by folder."""
    found = []
    for folder, there in files.items():
        for name in sorted(names - there):
            offered = OFFERED_BY[folder].format(name=name)
            found.append(f"{name!r} has a row in {TABLE}, but there is no {folder}/{name}.py that defines {offered}.")
        found += [f"{folder}/{name}.py is there, but {name!r} has no row in {TABLE}." for name in sorted(there - names)]
    return found


def test_each_row_has_its_files_and_each_file_its_row() -> None:
    missing = faults(set(ALGORITHMS), {each: files_of_algorithms(each, OFFERED_BY[each]) for each in OFFERED_BY})
    assert not missing, "\n".join(missing)


def test_what_is_missing_is_said() -> None:
    layout, engine = OFFERED_BY
    assert faults({"ring", "star"}, {layout: {"ring", "star"}, engine: {"ring", "line"}}) == [
        f"'star' has a row in {TABLE}, but there is no {engine}/star.py that defines star_mean.",
        f"{engine}/line.py is there, but 'line' has no row in {TABLE}.",
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
    assert callable(laid_out(name).exchange)


def test_the_order_is_kept() -> None:
    """Random draws follow it, so new ones come last."""
    known = ("ring", "tree", "halving_doubling", "rabenseifner", "hierarchical", "collective")
    assert ALGORITHMS[: len(known)] == known
    assert PLACED_ALGORITHMS[:5] == known[:5]

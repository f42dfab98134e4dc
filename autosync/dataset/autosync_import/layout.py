"""The files of the dataset's samples, found where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autosync.errors import DatasetError

__all__ = ["Sample", "samples_in"]

GRAPH_ITEM, RESOURCES, RUNTIME = "graph_item", "resource_spec", "runtime"
STRATEGIES = ("strategies", "strategy")
"""Names of the folder of strategies: the README says the one, the script that laid the files out the other."""

SUFFIXES = ("", ".yml", ".yaml", ".json")


@dataclass(frozen=True)
class Sample:
    """One sample's files; `model` and `cluster` are names of folders."""

    model: str
    cluster: str
    id: str
    graph_item: Path
    strategy: Path
    resources: Path
    runtime: Path


def samples_in(directory: Path) -> Iterator[Sample]:
    """Every sample under `directory`, by name. Raises `DatasetError` when there is no model, or a file is missing."""
    graph_items = sorted(directory.glob(f"*/{GRAPH_ITEM}"))
    if not graph_items:
        raise DatasetError(
            f"AutoSync's dataset has a folder a model with a file {GRAPH_ITEM!r} in it, but {directory} has none; give "
            "the folder that the archive was unpacked to."
        )
    for graph_item in graph_items:
        for cluster in sorted(each for each in graph_item.parent.iterdir() if each.is_dir()):
            for strategies in (cluster / name for name in STRATEGIES):
                if strategies.is_dir():
                    yield from _samples(graph_item, cluster, strategies)


def _samples(graph_item: Path, cluster: Path, strategies: Path) -> Iterator[Sample]:
    for strategy in sorted(strategies.iterdir()):
        resources, runtime = (_beside(cluster / folder, strategy.name) for folder in (RESOURCES, RUNTIME))
        yield Sample(graph_item.parent.name, cluster.name, strategy.name, graph_item, strategy, resources, runtime)


def _beside(folder: Path, name: str) -> Path:
    """The file of the sample `name` in `folder`, whatever its suffix."""
    for suffix in SUFFIXES:
        if (folder / f"{name}{suffix}").is_file():
            return folder / f"{name}{suffix}"
    raise DatasetError(f"Sample {name!r} needs a file of its name in {folder}, which has none; is the copy complete?")

"""Samples turned into records in a store."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from autosync.dataset.autosync_import.graph_item import read_graph_item
from autosync.dataset.autosync_import.messages import read_bytes
from autosync.dataset.autosync_import.resources import read_resources
from autosync.dataset.autosync_import.strategies import read_strategy
from autosync.dataset.store import RecordStore
from autosync.errors import DatasetError, SpecError
from autosync.spec import ModelSpec, RuntimeRecord, TimingProtocol, cut
from autosync.yaml_text import parse_yaml

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


RUN = "autosync"
ID_FORMAT = "%Y%m%dT%H%M%SM%f"
"""The format of AutoDist's name of a strategy: the time it was made, in UTC."""


@dataclass
class Imported:
    """The number of samples that became records, and of those that did not, by `model/cluster` and reason."""

    records: int = 0
    passed_over: Counter[tuple[str, str]] = field(default_factory=Counter)


def import_dataset(directory: Path, store: RecordStore, sparse_rows: int | None = None) -> Imported:
    """Append every sample under `directory` to `store`; importing twice adds nothing.

    `sparse_rows` is how many rows a replica's step touches in each variable with a sparse gradient.
    Raises `DatasetError` when the layout is another, a graph item cannot be read, or `sparse_rows` is needed.
    """
    imported = Imported()

    @cache
    def model_of(name: str, graph_item: Path) -> ModelSpec:
        return read_graph_item(graph_item).model(name, sparse_rows)

    for sample in samples_in(directory):
        model = model_of(sample.model, sample.graph_item)
        try:
            store.append(_record(sample, model))
        except (DatasetError, SpecError) as error:
            imported.passed_over[f"{sample.model}/{sample.cluster}", str(error)] += 1
        else:
            imported.records += 1
    store.compact()
    return imported


def _record(sample: Sample, model: ModelSpec) -> RuntimeRecord:
    resources = read_resources(sample.resources)
    strategy = read_strategy(sample.strategy, model, resources)
    step_seconds = _step_seconds(sample.runtime)
    return RuntimeRecord(
        model=model,
        cluster=resources.cluster,
        strategy=strategy,
        protocol=TimingProtocol(warmup_steps=0, timed_steps=len(step_seconds)),
        outcome="ok",
        purpose="search",
        label=sample.id,
        run=f"{RUN}/{sample.model}@{sample.cluster}",
        seed=0,
        started_at=_made_at(sample.id),
        total_seconds=math.fsum(step_seconds),
        step_seconds=step_seconds,
    )


def _step_seconds(file: Path) -> tuple[float, ...]:
    """Seconds of each iteration, or their mean when that is all there is."""
    try:
        document = parse_yaml(read_bytes(file), str(file))
        steps = tuple(float(each) for each in document["runtime"]) or (float(document["average"]),)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DatasetError(
            f"A runtime file holds 'average' and a list 'runtime', but {file} does not: {cut(repr(error))}."
        ) from None
    return steps


def _made_at(sample_id: str) -> float:
    """Seconds since 1970 when the strategy was made, by its name; 0 when that is no time."""
    try:
        return datetime.strptime(sample_id.partition(".")[0], ID_FORMAT).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return 0.0

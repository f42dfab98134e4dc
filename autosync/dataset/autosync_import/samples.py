"""Turns the dataset's samples into records in a store."""

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
"""Names of the folder of strategies: the README has the first, the script that created the layout has the second."""

SUFFIXES = ("", ".yml", ".yaml", ".json")


@dataclass(frozen=True)
class DatasetSample:
    """One sample's files. `model` and `cluster` are names of folders."""

    model: str
    cluster: str
    id: str
    graph_item: Path
    strategy: Path
    resources: Path
    runtime: Path


def samples_in(directory: Path) -> Iterator[DatasetSample]:
    """Yield every sample under `directory`, by name. Raises `DatasetError` without a model, or if a file is missing."""
    graph_items = sorted(directory.glob(f"*/{GRAPH_ITEM}"))
    if not graph_items:
        raise DatasetError(
            f"AutoSync's dataset has a folder per model with a file {GRAPH_ITEM!r} in it, but {directory} has none; "
            "pass the folder that the archive was unpacked to."
        )
    for graph_item in graph_items:
        for cluster in sorted(folder for folder in graph_item.parent.iterdir() if folder.is_dir()):
            for strategies in (cluster / name for name in STRATEGIES):
                if strategies.is_dir():
                    yield from _samples(graph_item, cluster, strategies)


def _samples(graph_item: Path, cluster: Path, strategies: Path) -> Iterator[DatasetSample]:
    for strategy in sorted(strategies.iterdir()):
        resources, runtime = (_file_of(cluster / folder, strategy.name) for folder in (RESOURCES, RUNTIME))
        yield DatasetSample(
            graph_item.parent.name, cluster.name, strategy.name, graph_item, strategy, resources, runtime
        )


def _file_of(folder: Path, name: str) -> Path:
    """Return the file of the sample `name` in `folder`, with any known suffix."""
    for suffix in SUFFIXES:
        if (folder / f"{name}{suffix}").is_file():
            return folder / f"{name}{suffix}"
    raise DatasetError(f"Sample {name!r} needs a file of its name in {folder}, which has none; is the copy complete?")


RUN = "autosync"
ID_FORMAT = "%Y%m%dT%H%M%SM%f"
"""The format of AutoDist's name of a strategy: its creation time in UTC."""


@dataclass
class Imported:
    """The outcome of an import."""

    records: int = 0
    """The number of samples that became records."""
    passed_over: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of skipped samples by `model/cluster` and reason."""


def import_dataset(directory: Path, store: RecordStore, sparse_rows: int | None = None) -> Imported:
    """Append every sample under `directory` to `store`. A second import adds no records.

    `sparse_rows` is the number of rows that a replica's step touches in each variable with a sparse gradient. Raises
    `DatasetError` if the layout differs, a graph item cannot be read, or `sparse_rows` is needed but None.
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


def _record(sample: DatasetSample, model: ModelSpec) -> RuntimeRecord:
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
        started_at=_creation_time(sample.id),
        total_seconds=math.fsum(step_seconds),
        step_seconds=step_seconds,
    )


def _step_seconds(file: Path) -> tuple[float, ...]:
    """Return the seconds of each iteration, or their mean if only that is stated."""
    try:
        document = parse_yaml(read_bytes(file), str(file))
        steps = tuple(float(seconds) for seconds in document["runtime"]) or (float(document["average"]),)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DatasetError(
            f"A runtime file must hold 'average' and a list 'runtime', but {file} does not: {cut(repr(error))}."
        ) from None
    return steps


def _creation_time(sample_id: str) -> float:
    """Return the strategy's creation time from its name, in seconds since 1970; 0 if the name is not a time."""
    try:
        return datetime.strptime(sample_id.partition(".")[0], ID_FORMAT).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return 0.0

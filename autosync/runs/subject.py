"""The subject of `explain`: a strategy with its model, its cluster and its measurements, found on disk or captured."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError, ModelError, SpecError
from autosync.runs import is_run, result_of, run_document
from autosync.runs.kept_records import KeptRecords, kept_records
from autosync.spec import (
    ClusterSpec,
    ModelSpec,
    RuntimeRecord,
    Strategy,
    check_step_time_ranks,
    check_strategy,
    quoted,
    read_json,
)
from autosync.spec.address import Address, Place
from autosync.words.quantities import milliseconds


@dataclass(frozen=True)
class RunFiles:
    """A run's `directory`, None if there is none, and where its records are."""

    directory: Path | None
    kept: KeptRecords

    @property
    def data(self) -> Place | None:
        return self.kept.place

    @property
    def model_digest(self) -> str | None:
        return str(self._document["model_digest"]) if self._document else None

    @property
    def cluster(self) -> ClusterSpec | None:
        return ClusterSpec.from_json(self._document["cluster"]) if self._document else None

    def records(self) -> list[RuntimeRecord]:
        """The records of the run's model, or all there are without a run. Raises `DatasetError`."""
        if self.data is None:
            return []
        from autosync.dataset import RecordStore  # pyarrow

        return RecordStore(self.data).read(model_digest=self.model_digest)

    def finding(self, strategy: Strategy) -> str | None:
        """What the run measured of this strategy, in words; None when it did not."""
        result = result_of(self.directory) if self.directory else None
        for row in result["strategies"] if result else ():
            if row["strategy_digest"] == strategy.digest and row["median_seconds"] and row["median_interval_seconds"]:
                median = milliseconds(row["median_seconds"], self.cluster.time if self.cluster else "real")
                low, high = (1e3 * each for each in row["median_interval_seconds"])
                return (
                    f"Measured in that run: {median} a step, median of {row['steps']} "
                    f"(95 % interval {low:.1f} to {high:.1f})."
                )
        return None

    @cached_property
    def _document(self) -> dict[str, Any] | None:
        return run_document(self.directory) if self.directory else None


def find_files(given: Place | None, beside: Path) -> RunFiles:
    """The run or records that `given` names; without it the run that the strategy lies in, and records in `data`."""
    if given is None:
        return _with_records(beside if is_run(beside) else None)
    if isinstance(given, Address):
        return RunFiles(beside if is_run(beside) else None, KeptRecords(given))
    directory = given.parent if given.is_file() else given
    if is_run(directory):
        return _with_records(directory)
    if directory.is_dir() and any(directory.glob("*.parquet")):
        return RunFiles(beside if is_run(beside) else None, KeptRecords(directory))
    raise AutosyncError(f"--result names a run's directory, its result.json or a directory of records, not {given}.")


def _with_records(directory: Path | None) -> RunFiles:
    """The run in `directory`, if any, and its records as far as they are read unasked."""
    return RunFiles(directory, kept_records(directory, run_document(directory) if directory else {}))


@dataclass(frozen=True)
class Sources:
    """The files and the model to look in, as given on the command line; only the strategy's file must be."""

    strategy: Path
    model: str | None = None
    cluster: Path | None = None
    result: Place | None = None


@dataclass(frozen=True)
class Makers:
    """How to get what is not on disk in the form of records: rooms above this one know.

    `capture` makes a model of its name, for the devices of a strategy. `read_cluster` reads a cluster file.
    `imply_cluster` gives the cluster that a strategy's devices imply, with a sentence of what is assumed.
    """

    capture: Callable[[str, Strategy], ModelSpec]
    read_cluster: Callable[[Path], ClusterSpec]
    imply_cluster: Callable[[Strategy], tuple[ClusterSpec, str]]


@dataclass(frozen=True)
class Subject:
    """A strategy that fits its model and its cluster.

    `records` are those of this model on this cluster; `notes` say where model and cluster come from; `measured` is what
    was found of this strategy itself, in words.
    """

    strategy: Strategy
    model: ModelSpec
    cluster: ClusterSpec
    records: tuple[RuntimeRecord, ...]
    notes: tuple[str, ...]
    measured: str | None = None


def find_subject(sources: Sources, makers: Makers) -> Subject:
    """The subject that `sources` name. Raises `AutosyncError` with one sentence when something is missing or unfit."""
    strategy = _read_strategy(sources.strategy)
    check_step_time_ranks(strategy)
    stated = makers.read_cluster(sources.cluster) if sources.cluster is not None else None  # capturing takes far longer
    run = find_files(sources.result, sources.strategy.parent)
    records = run.records()
    model, from_where = _model(sources, makers, strategy, run, records)
    cluster, note = _cluster(sources, makers, stated, strategy, model, run, records)
    try:
        check_strategy(strategy, model, cluster)
    except SpecError as error:
        raise AutosyncError(
            f"{sources.strategy} does not fit model {quoted(model.name)} on this cluster: {error}"
        ) from None
    kin = [each for each in records if each.model.digest == model.digest and each.cluster.digest == cluster.digest]
    measured = run.finding(strategy) or _timed(strategy, kin)
    return Subject(strategy, model, cluster, tuple(kin), (from_where, note), measured)


def _timed(strategy: Strategy, records: Sequence[RuntimeRecord]) -> str | None:
    """The measurements in trials of the strategy itself, in words."""
    medians = [each.median_seconds for each in records if each.timed and each.strategy.digest == strategy.digest]
    seconds = sorted(median for median in medians if median is not None)
    if not seconds:
        return None
    time = records[0].time  # they are all of one cluster
    if len(seconds) == 1:
        return f"Measured in one trial: {milliseconds(seconds[0], time)} a step (median)."
    return (
        f"Measured in {len(seconds)} trials: {milliseconds(statistics.median(seconds), time)} a step "
        f"(medians from {1e3 * seconds[0]:.1f} to {1e3 * seconds[-1]:.1f})."
    )


def _read_strategy(file: Path) -> Strategy:
    try:
        return Strategy.from_json(read_json(file, f"Strategy file {file}"))
    except OSError as error:
        raise AutosyncError(f"Strategy file {file} cannot be read: {error.strerror}; name a strategy.json.") from None
    except SpecError as error:
        text = str(error)
        raise AutosyncError(text if str(file) in text else f"Strategy file {file}: {text}") from None


def _model(
    sources: Sources, makers: Makers, strategy: Strategy, run: RunFiles, records: Sequence[RuntimeRecord]
) -> tuple[ModelSpec, str]:
    if sources.model is not None:
        return makers.capture(sources.model, strategy), f"Model {sources.model} was captured just now."
    wanted = {each.variable for each in strategy.variables}
    fitting = [each for each in records if set(each.model.by_name) == wanted]
    same_run = [each for each in fitting if run.model_digest in (None, each.model.digest)]
    same_strategy = [each for each in fitting if each.strategy.digest == strategy.digest]
    for found in (same_run if run.model_digest else [], same_strategy, fitting):
        if found:
            alike = [each for each in fitting if each.model.digest == found[-1].model.digest]
            return found[-1].model, f"The model is that of {_count(alike)} in {run.data}."
    looked = f"no record in {run.data} is of a model with them" if records else "there are no records here"
    raise ModelError(
        f"The variables' sizes are not in a strategy, and {looked}; name the model with --model, "
        f"or its run or records with --result.{_and(run.kept.missing('--result'))}"
    )


def _and(sentence: str) -> str:
    return sentence and f" {sentence}"


def _count(records: Sequence[RuntimeRecord]) -> str:
    return f"{len(records)} record{'s' * (len(records) != 1)}"


def _cluster(
    sources: Sources,
    makers: Makers,
    stated: ClusterSpec | None,
    strategy: Strategy,
    model: ModelSpec,
    run: RunFiles,
    records: Sequence[RuntimeRecord],
) -> tuple[ClusterSpec, str]:
    if stated is not None:
        return stated, f"The cluster is what {sources.cluster} states."
    if run.cluster is not None:
        return run.cluster, f"The cluster is that of the run in {run.directory}."
    for each in reversed(records):
        if each.strategy.digest == strategy.digest and each.model.digest == model.digest:
            return each.cluster, f"The cluster is that of the records in {run.data}."
    return makers.imply_cluster(strategy)

"""The input of `explain`: a strategy with its model, cluster and measurements, found on disk or captured."""

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
    quote,
    read_json,
)
from autosync.spec.address import Address, Place
from autosync.words.quantities import milliseconds


@dataclass(frozen=True)
class RunFiles:
    """A run's `directory`, None if there is none, and the place of its records."""

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
        """The records of the run's model, or all records without a run. Raises `DatasetError`."""
        if self.data is None:
            return []
        from autosync.dataset import RecordStore  # pyarrow

        return RecordStore(self.data).read(model_digest=self.model_digest)

    def measurement_in_words(self, strategy: Strategy) -> str | None:
        """The run's measurement of this strategy, in words; None if the run has none."""
        result = result_of(self.directory) if self.directory else None
        for row in result["strategies"] if result else ():
            if row["strategy_digest"] == strategy.digest and row["median_seconds"] and row["median_interval_seconds"]:
                median = milliseconds(row["median_seconds"], self.cluster.time if self.cluster else "real")
                low, high = (1e3 * seconds for seconds in row["median_interval_seconds"])
                return (
                    f"Measured in that run: {median} a step, median of {row['steps']} "
                    f"(95 % interval {low:.1f} to {high:.1f})."
                )
        return None

    @cached_property
    def _document(self) -> dict[str, Any] | None:
        return run_document(self.directory) if self.directory else None


def find_files(named: Place | None, beside: Path) -> RunFiles:
    """The run or records that `named` names; without a name, the run around the strategy, and records in `data`."""
    if named is None:
        return _with_records(beside if is_run(beside) else None)
    if isinstance(named, Address):
        return RunFiles(beside if is_run(beside) else None, KeptRecords(named))
    directory = named.parent if named.is_file() else named
    if is_run(directory):
        return _with_records(directory)
    if directory.is_dir() and any(directory.glob("*.parquet")):
        return RunFiles(beside if is_run(beside) else None, KeptRecords(directory))
    raise AutosyncError(
        f"--result must name a run's directory, its result.json or a directory of records, not {named}; "
        "name one of these."
    )


def _with_records(directory: Path | None) -> RunFiles:
    """The run in `directory`, if any, with its records if they may be read unasked."""
    return RunFiles(directory, kept_records(directory, run_document(directory) if directory else {}))


@dataclass(frozen=True)
class Sources:
    """The files and the model to read, as stated on the command line. Only the strategy's file is required."""

    strategy: Path
    model: str | None = None
    cluster: Path | None = None
    result: Place | None = None


@dataclass(frozen=True)
class Loaders:
    """Functions that make a model or a cluster that is not on disk as a record; packages above this one implement
    them.
    """

    capture: Callable[[str, Strategy], ModelSpec]
    """Captures the named model for the devices of a strategy."""

    read_cluster: Callable[[Path], ClusterSpec]
    """Reads a cluster file."""

    imply_cluster: Callable[[Strategy], tuple[ClusterSpec, str]]
    """Returns the cluster that a strategy's devices imply, and a sentence on the assumptions."""


@dataclass(frozen=True)
class ExplainInput:
    """A strategy that fits its model and its cluster."""

    strategy: Strategy
    model: ModelSpec
    cluster: ClusterSpec

    records: tuple[RuntimeRecord, ...]
    """Records of this model on this cluster."""

    notes: tuple[str, ...]
    """Sentences on the origin of the model and the cluster."""

    measured: str | None = None
    """The measurements of this strategy itself, in words; None without any."""


def find_explain_input(sources: Sources, loaders: Loaders) -> ExplainInput:
    """Find the input that `sources` name. Raises `AutosyncError` with one sentence if something is missing or does
    not fit.
    """
    strategy = _read_strategy(sources.strategy)
    check_step_time_ranks(strategy)
    stated = (
        loaders.read_cluster(sources.cluster) if sources.cluster is not None else None
    )  # capturing takes far longer
    run = find_files(sources.result, sources.strategy.parent)
    records = run.records()
    model, from_where = _model(sources, loaders, strategy, run, records)
    cluster, note = _cluster(sources, loaders, stated, strategy, model, run, records)
    try:
        check_strategy(strategy, model, cluster)
    except SpecError as error:
        raise AutosyncError(
            f"{sources.strategy} does not fit model {quote(model.name)} on this cluster: {error}"
        ) from None
    kin = [
        record for record in records if record.model.digest == model.digest and record.cluster.digest == cluster.digest
    ]
    measured = run.measurement_in_words(strategy) or _trials_in_words(strategy, kin)
    return ExplainInput(strategy, model, cluster, tuple(kin), (from_where, note), measured)


def _trials_in_words(strategy: Strategy, records: Sequence[RuntimeRecord]) -> str | None:
    """The measurements of the strategy itself in trials, in words; None without any."""
    medians = [
        record.median_seconds for record in records if record.timed and record.strategy.digest == strategy.digest
    ]
    seconds = sorted(median for median in medians if median is not None)
    if not seconds:
        return None
    time = records[0].time  # all records are of one cluster
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
    sources: Sources, loaders: Loaders, strategy: Strategy, run: RunFiles, records: Sequence[RuntimeRecord]
) -> tuple[ModelSpec, str]:
    if sources.model is not None:
        return loaders.capture(sources.model, strategy), f"The model {sources.model} was captured just now."
    wanted = {variable.variable for variable in strategy.variables}
    fitting = [record for record in records if set(record.model.by_name) == wanted]
    same_run = [record for record in fitting if run.model_digest in (None, record.model.digest)]
    same_strategy = [record for record in fitting if record.strategy.digest == strategy.digest]
    for candidates in (same_run if run.model_digest else [], same_strategy, fitting):
        if candidates:
            alike = [record for record in fitting if record.model.digest == candidates[-1].model.digest]
            return candidates[-1].model, f"The model is from {_count(alike)} in {run.data}."
    looked = f"no record in {run.data} has a model with these variables" if records else "there are no records here"
    raise ModelError(
        f"A strategy does not state the sizes of its variables, and {looked}; name the model with --model, "
        f"or its run or records with --result.{_and(run.kept.missing('--result'))}"
    )


def _and(sentence: str) -> str:
    return sentence and f" {sentence}"


def _count(records: Sequence[RuntimeRecord]) -> str:
    return f"{len(records)} record{'s' * (len(records) != 1)}"


def _cluster(
    sources: Sources,
    loaders: Loaders,
    stated: ClusterSpec | None,
    strategy: Strategy,
    model: ModelSpec,
    run: RunFiles,
    records: Sequence[RuntimeRecord],
) -> tuple[ClusterSpec, str]:
    if stated is not None:
        return stated, f"The cluster is from {sources.cluster}."
    if run.cluster is not None:
        return run.cluster, f"The cluster is from the run in {run.directory}."
    for record in reversed(records):
        if record.strategy.digest == strategy.digest and record.model.digest == model.digest:
            return record.cluster, f"The cluster is from the records in {run.data}."
    return loaders.imply_cluster(strategy)

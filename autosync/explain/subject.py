"""What is explained: a strategy with its model, its cluster and whatever was measured, found on disk or captured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autosync.engine.capture_apart import CAPTURE_SECONDS, captured_apart
from autosync.errors import AutosyncError, ModelError, SpecError
from autosync.explain.implied import ASSUMED_CORES, implied_cluster
from autosync.explain.run_files import Run, find_run
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, check_strategy, quoted, read_json
from trials.cluster.file import read_cluster_file

__all__ = ["Sources", "Subject", "find_subject"]


@dataclass(frozen=True)
class Sources:
    """The files and the model to look in, as given on the command line; only the strategy's file must be.

    `capture_seconds` are what capturing `model` may take, where it is the user's own.
    """

    strategy: Path
    model: str | None = None
    cluster: Path | None = None
    result: Path | None = None
    capture_seconds: float = CAPTURE_SECONDS


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


def find_subject(sources: Sources) -> Subject:
    """The subject that `sources` name. Raises `AutosyncError` with one sentence when something is missing or unfit."""
    strategy = _read_strategy(sources.strategy)
    stated = read_cluster_file(sources.cluster) if sources.cluster is not None else None  # capturing takes far longer
    run = find_run(sources.result, sources.strategy.parent)
    records = run.records()
    model, from_where = _model(sources, strategy, run, records)
    cluster, note = _cluster(sources, stated, strategy, model, run, records)
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
    """What trials of the strategy itself have measured, in words."""
    medians = [each.median_seconds for each in records if each.timed and each.strategy.digest == strategy.digest]
    milliseconds = sorted(1e3 * median for median in medians if median is not None)
    if not milliseconds:
        return None
    if len(milliseconds) == 1:
        return f"Measured in one trial: {milliseconds[0]:.1f} ms a step (median)."
    return (
        f"Measured in {len(milliseconds)} trials: {statistics.median(milliseconds):.1f} ms a step "
        f"(medians from {milliseconds[0]:.1f} to {milliseconds[-1]:.1f})."
    )


def _read_strategy(file: Path) -> Strategy:
    try:
        return Strategy.from_json(read_json(file, f"Strategy file {file}"))
    except OSError as error:
        raise AutosyncError(f"Strategy file {file} cannot be read: {error.strerror}; name a strategy.json.") from None
    except SpecError as error:
        text = str(error)
        raise AutosyncError(text if str(file) in text else f"Strategy file {file}: {text}") from None


def _model(sources: Sources, strategy: Strategy, run: Run, records: Sequence[RuntimeRecord]) -> tuple[ModelSpec, str]:
    if sources.model is not None:
        return _captured(
            sources.model, strategy, sources.capture_seconds
        ), f"Model {sources.model} was captured just now."
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
        f"or its run or records with --result."
    )


def _count(records: Sequence[RuntimeRecord]) -> str:
    return f"{len(records)} record{'s' * (len(records) != 1)}"


def _captured(name: str, strategy: Strategy, seconds: float) -> ModelSpec:
    """The model called `name`, captured in this process, or within `seconds` in another where it is the user's own.

    What TensorFlow logs meanwhile is nothing to who asked; where tune captures, in a worker process, it is not shown.
    """
    from autosync.engine.capture.captured import CapturedModel
    from autosync.engine.loading import load_tensorflow, quiet_log
    from autosync.engine.zoo import build_task, resolve_name
    from trials.opening import check_model_name

    check_model_name(name)
    on_gpus = any("/gpu:" in replica for replica in strategy.replicas)
    full_name = resolve_name(name, gpus=int(on_gpus))
    with quiet_log():
        if ":" in name:
            return CapturedModel.from_bytes(captured_apart(name, seconds)).spec
        load_tensorflow()
        from autosync.engine.capture.capturing import capture

        return capture(build_task(full_name)).spec


def _cluster(
    sources: Sources,
    stated: ClusterSpec | None,
    strategy: Strategy,
    model: ModelSpec,
    run: Run,
    records: Sequence[RuntimeRecord],
) -> tuple[ClusterSpec, str]:
    if stated is not None:
        return stated, f"The cluster is what {sources.cluster} states."
    if run.cluster is not None:
        return run.cluster, f"The cluster is that of the run in {run.directory}."
    for each in reversed(records):
        if each.strategy.digest == strategy.digest and each.model.digest == model.digest:
            return each.cluster, f"The cluster is that of the records in {run.data}."
    return implied_cluster(strategy), (
        f"No cluster is given, so it is what the strategy's devices imply: all rates and latencies are assumed, "
        f"and {ASSUMED_CORES:g} cores a node; state yours with --cluster."
    )

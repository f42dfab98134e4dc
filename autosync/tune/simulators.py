"""The simulator that guides a search, its checkpoint, and the records of other runs that it learns from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosync.cost import (
    PRIORS,
    REPLAY_PRIORS,
    AnalyticSimulator,
    Blended,
    CascadeSimulator,
    Replay,
    Simulator,
    TransferSimulator,
    weight_of,
)
from autosync.dataset import RowBlock, read_arrays, records_with_ids
from autosync.engine.core.registry import DEFAULT, name_in_records
from autosync.engine.core.versions import VERSIONS
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, parse_json
from autosync.spec.pace_report import kind_of, split_kind
from autosync.spec.record import engine_of
from autosync.stats.drift import heaviest
from autosync.tune.job import Job
from autosync.tune.options import CLOSED_FORMS, OptionsError, TuneOptions
from autosync.words.cluster import prediction_phase
from autosync.words.quantities import count_of
from autosync.zoo import framework_by_name

if TYPE_CHECKING:
    from autosync.simulator import LearnedSimulator

NETWORK_OF_AUTO = "linear"
"""The network that corrects the replay if no checkpoint names one: it is fitted in seconds and needs the fewest
records."""


def make_simulator(options: TuneOptions, cluster: ClusterSpec) -> Simulator:
    """The simulator called `options.simulator` for `cluster`, from the checkpoint `options.warm_start` if given.

    *auto* starts from the shipped checkpoint for the search's kind of times, if there is one; the closed form
    preselects the strategies that it predicts. Raises `OptionsError` if a checkpoint cannot be used.
    """
    check_warm_start(options, cluster)
    closed_form = AnalyticSimulator(PRIORS[options.framework_in_records])
    if options.simulator == "analytic":
        return closed_form
    if options.simulator == "replay":
        return Replay(REPLAY_PRIORS[options.framework_in_records])
    learned = _load_simulator(options, _start_of(options, cluster))
    return CascadeSimulator(closed_form, learned) if options.simulator == "auto" else learned


def guide(options: TuneOptions, space: SearchSpace, earlier: Sequence[RuntimeRecord], in_parallel: bool) -> Simulator:
    """The simulator for a search of `space`, which also learns from `earlier` records.

    A simulator that takes seconds to fit is fitted in an actor, with `in_parallel` while trials run. Raises
    `OptionsError`.
    """
    informed = TransferSimulator(make_simulator(options, space.cluster), earlier, space.model, space.cluster)
    guiding: Simulator = informed
    if options.simulator not in CLOSED_FORMS:
        from autosync.tune.remote_simulator import RemoteSimulator  # Ray is imported when it is asked for

        guiding = RemoteSimulator(informed, in_parallel)
    if earlier:
        guiding.fit([])
    return guiding


def leaves_room(cluster: ClusterSpec, trial_addresses: Collection[str], here: str) -> bool:
    """Whether a fit on the node with the address `here` can run in parallel with trials without slowing down their
    steps.

    It can if no trials run on that node, or if their steps are computed on GPUs.
    """
    on_gpus = all(device.kind == "gpu" for device in cluster.replica_devices)
    return on_gpus or here not in trial_addresses


def check_warm_start(options: TuneOptions, cluster: ClusterSpec | None) -> None:
    """Raise `OptionsError` if `options.warm_start` is not a checkpoint from which the search can start.

    It must have been fitted to records of the search's framework, and of the cluster's kind of times, as far as
    framework and `cluster` are already known.
    """
    if options.warm_start is None:
        return
    start = f"--warm-start {options.warm_start} was fitted to"
    framework = framework_by_name(options.model, options.framework)
    kinds = [split_kind(kind) for kind in _load_simulator(options, options.warm_start).kinds]
    if framework and kinds and name_in_records(framework) not in {fitted for fitted, _ in kinds}:
        raise OptionsError(
            f"{start} steps of {' and '.join(sorted({fitted or DEFAULT for fitted, _ in kinds}))}, but this search "
            f"times steps of {framework}, and the two are never compared; leave the option out, or name a checkpoint "
            f"made by `autosync pretrain --framework {framework}`."
        )
    if cluster is not None and kinds and cluster.kind not in {times for _, times in kinds}:
        raise OptionsError(
            f"{start} {' and '.join(times for _, times in kinds)} times, but this cluster has {cluster.kind} times, "
            "and the two are never compared; leave the option out, or name a checkpoint made by "
            f"`autosync pretrain --kind {cluster.kind}`."
        )


def simulator_in_words(
    options: TuneOptions, model: ModelSpec, cluster: ClusterSpec, earlier: Sequence[RuntimeRecord]
) -> Iterator[str]:
    """Sentences on the simulator that guides the search, and on the records of other runs from which it learns."""
    start = options.warm_start or (_start_of(options, cluster) and "that comes with autosync")
    trained = f", which starts from the checkpoint {start}" if start else ""
    if options.simulator == "auto" and not start:
        trained = f", which starts untrained because no checkpoint was fitted to {_kind(options, cluster)} times"
    yield f"Candidates are ranked by the simulator {options.simulator!r}{trained}."
    if said := prediction_phase(cluster):
        yield said
    if earlier:
        of_model = [record.model.digest == model.digest for record in earlier]
        of_cluster = [record.cluster.digest == cluster.digest for record in earlier]
        of_both = sum(map(bool.__and__, of_model, of_cluster))
        yield (
            f"The simulator also learns from {count_of(len(earlier), 'record')} of other runs: {of_both} of this model "
            f"on this cluster, {sum(of_model) - of_both} of this model on other clusters, and "
            f"{sum(of_cluster) - of_both} of other models on this cluster."
        )


def _start_of(options: TuneOptions, cluster: ClusterSpec) -> Path | None:
    """The checkpoint from which the simulator starts; None without one."""
    if options.warm_start is not None or options.simulator != "auto":
        return options.warm_start
    from autosync.simulator import shipped_checkpoint  # torch is imported only when it is asked for

    return shipped_checkpoint(_kind(options, cluster))


def _kind(options: TuneOptions, cluster: ClusterSpec) -> str:
    """The kind of the search's times, as its records state it."""
    return kind_of(cluster.time, cluster.numbers, options.framework_in_records)


def _load_simulator(options: TuneOptions, path: Path | None) -> LearnedSimulator:
    """The simulator loaded from the checkpoint at `path`; a new one if `path` is None."""
    from autosync.simulator import CheckpointError, LearnedSimulator  # torch is imported only when it is asked for

    network = NETWORK_OF_AUTO if options.simulator == "auto" else options.simulator
    if path is None:
        return LearnedSimulator(Blended(options.framework_in_records), network, options.seed)
    try:
        learned = LearnedSimulator.load(path)
    except CheckpointError as error:
        raise OptionsError(f"--warm-start {path} cannot be used: {str(error).rstrip('.')}.") from None
    if options.simulator not in ("auto", learned.network):
        raise OptionsError(
            f"--warm-start {path} holds a simulator {learned.network!r}, not {options.simulator!r}; "
            f"use --simulator {learned.network}, or auto."
        )
    return learned


MOST = 96
"""The maximum number of records of other runs to learn from; each one adds to the duration of every fit."""

KIND = ("time", "numbers", "framework")
COLUMNS = ("record_id", "run", "model_digest", "cluster_digest", "versions", "median_seconds", "started_at", *KIND)


def earlier_records(job: Job, go_on: bool) -> list[RuntimeRecord]:
    """Records of other runs of this model or on this cluster in the dataset, the most similar first.

    Records whose seconds are of another kind, such as paced ones in a real run, are left out, and so are records of
    another framework or engine version; the number of the last is reported. The chosen ids are written down, so that a
    resumed search learns from the same records, even if others were added meanwhile.
    """
    if not job.store.current_files():
        return []
    chosen = job.directory.read_earlier() if go_on else None
    if chosen is None:
        chosen = _most_similar(job)
        job.directory.write_earlier(chosen)
    return records_with_ids(job.options.data, chosen) if chosen else []


@cache
def _engine(versions: str) -> int:
    """The engine's version in a record's `versions`. Cached, because very many records have equal `versions`."""
    return engine_of(parse_json(versions, "A record's versions"))


def _most_similar(job: Job) -> list[str]:
    """Ids of the rows with the largest weights; among rows of equal weight, some from every part of the time.

    Rows with another model and another cluster are filtered out while reading, because there may be millions.
    """
    model, cluster = job.backend.model.digest, job.backend.cluster.digest
    kind = job.backend.cluster.time, job.backend.cluster.numbers, job.options.framework_in_records
    engine = VERSIONS[job.options.framework_or_default]
    this_run = job.directory.name

    def counting(rows: RowBlock) -> dict[str, Any]:
        values = [rows.values(name) for name in COLUMNS]
        rows_found = []
        for identity, run, of_model, of_cluster, versions, median, started_at, *of_kind in zip(*values, strict=True):
            weight = weight_of(of_model == model, of_cluster == cluster)
            if tuple(of_kind) == kind and median and run != this_run and weight:
                rows_found.append((started_at, identity, weight, _engine(versions) == engine))
        started, identities, weights, present = zip(*rows_found, strict=True) if rows_found else [()] * 4
        return {
            "started_at": np.array(started, dtype=np.float64),
            "record_id": np.array(identities, dtype=np.str_),
            "weight": np.array(weights, dtype=np.float64),
            "present": np.array(present, dtype=np.bool_),
        }

    columns = read_arrays(job.options.data, counting, COLUMNS)
    _, once = np.unique(columns["record_id"], return_index=True)
    if count := int(np.count_nonzero(~columns["present"][once])):
        job.observer.say(
            f"The search does not learn from {count_of(count, 'record')} of other runs, because another version of the "
            "engine timed them."
        )
    once = once[columns["present"][once]]
    order = once[np.lexsort((columns["record_id"][once], columns["started_at"][once]))]
    places = heaviest(columns["weight"][order], MOST)
    return [str(columns["record_id"][order[place]]) for place in places]

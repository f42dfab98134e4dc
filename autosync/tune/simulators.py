"""The simulator that guides a search, and its starting point."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosync.cost import AnalyticSimulator, Drafted, Informed, Replay, Simulator, weight_of
from autosync.dataset import Rows, read_arrays, records_with_ids
from autosync.engine.version import ENGINE
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, parse_json
from autosync.spec.record import engine_of
from autosync.stats.occasions import heaviest
from autosync.tune.job import Job
from autosync.tune.options import CLOSED_FORMS, OptionsError, TuneOptions
from autosync.words.cluster import predicted_for
from autosync.words.quantities import counted

if TYPE_CHECKING:
    from autosync.simulator import LearnedSimulator

NETWORK_OF_AUTO = "linear"
"""The network that corrects the replay where no checkpoint says: fitted in seconds, it needs the fewest records."""


def make_simulator(options: TuneOptions, cluster: ClusterSpec) -> Simulator:
    """The simulator called `options.simulator` for `cluster`, from `options.warm_start` if that is given.

    *auto* starts from the checkpoint that comes with the program for times of the cluster's kind, if one comes, and the
    closed form drafts what it verifies. Raises `OptionsError` when a checkpoint cannot be used.
    """
    check_warm_start(options, cluster)
    if options.simulator == "analytic":
        return AnalyticSimulator()
    if options.simulator == "replay":
        return Replay()
    learned = _learned(options, _start_of(options, cluster))
    return Drafted(AnalyticSimulator(), learned) if options.simulator == "auto" else learned


def guide(options: TuneOptions, space: SearchSpace, earlier: Sequence[RuntimeRecord], beside: bool) -> Simulator:
    """The simulator for a search of `space`, which also learns from `earlier` records; one that takes seconds to fit
    does so in an actor, with `beside` while trials run. Raises `OptionsError`.
    """
    informed = Informed(make_simulator(options, space.cluster), earlier, space.model, space.cluster)
    guiding: Simulator = informed
    if options.simulator not in CLOSED_FORMS:
        from autosync.tune.remote_simulator import RemoteSimulator  # Ray is imported when it is asked for

        guiding = RemoteSimulator(informed, beside)
    if earlier:
        guiding.fit([])
    return guiding


def leaves_room(cluster: ClusterSpec, trial_addresses: Collection[str], here: str) -> bool:
    """Whether a fit on the node with the address `here` can go on beside trials without making their steps longer.

    It can where no trials are run, and beside steps that are computed on GPUs.
    """
    on_gpus = all(device.kind == "gpu" for device in cluster.replica_devices)
    return on_gpus or here not in trial_addresses


def check_warm_start(options: TuneOptions, cluster: ClusterSpec | None) -> None:
    """Raise `OptionsError` when `options.warm_start` names no checkpoint that a search can start from.

    On `cluster`, if that is known by now, it must know times of the kind that trials there have.
    """
    if options.warm_start is None:
        return
    kinds = _learned(options, options.warm_start).kinds
    if cluster is not None and kinds and cluster.kind not in kinds:
        raise OptionsError(
            f"--warm-start {options.warm_start} was fitted to {' and '.join(kinds)} times, but those of this cluster "
            f"are {cluster.kind}, and the two are never compared; leave it out, or name one of `autosync pretrain "
            f"--kind {cluster.kind}`."
        )


def simulator_in_words(
    options: TuneOptions, model: ModelSpec, cluster: ClusterSpec, earlier: Sequence[RuntimeRecord]
) -> Iterator[str]:
    """Sentences on what guides the search, and what that learns from beside the search's own records."""
    start = options.warm_start or (_start_of(options, cluster) and "that comes with the program")
    taught = f", from the checkpoint {start}" if start else ""
    if options.simulator == "auto" and not start:
        taught = f", untaught: no checkpoint was fitted to {cluster.kind} times"
    yield f"Simulator {options.simulator}{taught}."
    if said := predicted_for(cluster):
        yield said
    if earlier:
        of_model = [each.model.digest == model.digest for each in earlier]
        of_cluster = [each.cluster.digest == cluster.digest for each in earlier]
        both = sum(map(bool.__and__, of_model, of_cluster))
        yield (
            f"It also learns from {counted(len(earlier), 'record')} of other runs: {both} of this model on this "
            f"cluster, {sum(of_model) - both} of this model elsewhere, {sum(of_cluster) - both} of other models here."
        )


def _start_of(options: TuneOptions, cluster: ClusterSpec) -> Path | None:
    """The checkpoint that the simulator starts from; None without one."""
    if options.warm_start is not None or options.simulator != "auto":
        return options.warm_start
    from autosync.simulator import shipped_checkpoint  # torch is imported only when it is asked for

    return shipped_checkpoint(cluster.kind)


def _learned(options: TuneOptions, path: Path | None) -> LearnedSimulator:
    """The simulator that starts from the checkpoint at `path`, if there is one."""
    from autosync.simulator import CheckpointError, LearnedSimulator  # torch is imported only when it is asked for

    network = NETWORK_OF_AUTO if options.simulator == "auto" else options.simulator
    if path is None:
        return LearnedSimulator(network=network, seed=options.seed)
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
"""The most records that are learned from: each takes its part of every fit."""

KIND = ("time", "numbers")
COLUMNS = ("record_id", "run", "model_digest", "cluster_digest", "versions", "median_seconds", "started_at", *KIND)


def earlier_records(job: Job, go_on: bool) -> list[RuntimeRecord]:
    """Records of other runs of this model or on this cluster in the dataset, the most alike first.

    Those whose seconds are of another kind than this run's, paced ones in a real run, are none of them, nor are those
    of an engine of another version, of which it is said how many there are. Which they are is written down: a search
    that goes on learns from the same, whatever was added meanwhile.
    """
    if not job.store.current_files():
        return []
    chosen = job.directory.read_earlier() if go_on else None
    if chosen is None:
        chosen = _likest(job)
        job.directory.write_earlier(chosen)
    return records_with_ids(job.options.data, chosen) if chosen else []


@cache
def _engine(versions: str) -> int:
    """The engine's version in a record's `versions`, of which very many have the same."""
    return engine_of(parse_json(versions, "A record's versions"))


def _likest(job: Job) -> list[str]:
    """Ids of the rows that count most; among rows that count the same, some from every part of the time.

    Of rows that share neither the model nor the cluster nothing comes here: there may be very many.
    """
    model, cluster = job.backend.model.digest, job.backend.cluster.digest
    kind = job.backend.cluster.time, job.backend.cluster.numbers
    own = job.directory.name

    def counting(rows: Rows) -> dict[str, Any]:
        values = [rows.values(name) for name in COLUMNS]
        found = []
        for identity, run, of_model, of_cluster, versions, median, started_at, *of_kind in zip(*values, strict=True):
            weight = weight_of(of_model == model, of_cluster == cluster)
            if tuple(of_kind) == kind and median and run != own and weight:
                found.append((started_at, identity, weight, _engine(versions) == ENGINE))
        started, identities, weights, present = zip(*found, strict=True) if found else [()] * 4
        return {
            "started_at": np.array(started, dtype=np.float64),
            "record_id": np.array(identities, dtype=np.str_),
            "weight": np.array(weights, dtype=np.float64),
            "present": np.array(present, dtype=np.bool_),
        }

    found = read_arrays(job.options.data, counting, COLUMNS)
    _, once = np.unique(found["record_id"], return_index=True)
    if count := int(np.count_nonzero(~found["present"][once])):
        job.console.print(
            f"{counted(count, 'record')} of other runs would tell something, but an engine of another version timed "
            "them: the search does not learn from them.",
            soft_wrap=True,
        )
    once = once[found["present"][once]]
    order = once[np.lexsort((found["record_id"][once], found["started_at"][once]))]
    places = heaviest(found["weight"][order], MOST)
    return [str(found["record_id"][order[place]]) for place in places]

"""A running search: its options, its directory, and the back end of its trials."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.tune import Callback

from autosync.dataset import RecordStore
from autosync.errors import AutosyncError, ClusterError
from autosync.runs import pace_explanation
from autosync.spec import ClusterSpec, RuntimeRecord, read_device_profile
from autosync.tune.directory import RunDirectory
from autosync.tune.observer import Observer
from autosync.tune.options import TuneOptions
from autosync.words.cluster import cluster_lines
from autosync.words.quantities import count_of, model_in_words
from trials.cluster.discovery import cluster_from_ray_nodes, match_cluster
from trials.cluster.file import read_cluster_file
from trials.cluster.node_matching import addresses_of, alike, groups_of, seat_at, unlike_machines
from trials.fleet.fleet import Fleet, FleetSettings
from trials.opening import model_line, model_on, trials_on_ray

CLOSING_SECONDS, CLOSING_SHARE = 6.0, 0.03


@dataclass(frozen=True)
class Job:
    """The objects that every part of a search needs."""

    options: TuneOptions

    directory: RunDirectory
    """The folder of the run."""

    store: RecordStore
    """The records of this run and of all others."""

    backend: Fleet
    """Runs the trials."""

    observer: Observer

    begin: float
    """The start of the search on the monotonic clock; for a resumed search, less the seconds of earlier processes."""

    arguments: Sequence[str] = ()
    """The words after `autosync tune` that begin the same search."""

    tune_callbacks: Sequence[Callback] = ()
    """The caller's callbacks of Ray Tune."""

    @property
    def seconds_gone(self) -> float:
        return time.monotonic() - self.begin

    @property
    def seconds_left(self) -> float:
        """Seconds of the time budget that trials, finals included, may still take; infinite without a budget.

        `CLOSING_SECONDS` are reserved for the report, but at most `CLOSING_SHARE` of the budget.
        """
        budget = self.options.time_budget_seconds
        if budget is None:
            return math.inf
        return budget - min(CLOSING_SECONDS, CLOSING_SHARE * budget) - self.seconds_gone

    def append(self, record: RuntimeRecord) -> None:
        """Store `record` permanently."""
        self.store.append(record)

    def save_state(self, state: dict[str, Any]) -> None:
        self.directory.write_state(state, self.seconds_gone)


def open_fleet(options: TuneOptions, directory: RunDirectory, observer: Observer, shrunk: bool) -> Fleet:
    """Start workers on a measured cluster, with the model captured. Raises `ModelError` and `ClusterError`.

    A resumed run uses the cluster as the run first measured it, if the present cluster is like it. A run that has
    `shrunk` starts again on the remaining nodes.
    """
    before = directory.read_run() if options.resume and not shrunk else None
    groups = _groups(options, shrunk, before[1] if before else None)
    measure = options.probe and (
        before is None or options.reprobe or addresses_of(before[1]) != addresses_of(groups[0])
    )
    if before and not measure:
        groups = [seat_at(before[1], addresses_of(group)) for group in groups]
    workers, lanes = len(groups[0].server_devices), len(groups)
    observer.say(
        f"Starting {workers} worker process{'es' * (workers > 1)}{f' on each of {lanes} groups of nodes' * (lanes > 1)}"
        f" and capturing the model {options.model} ..."
    )
    wait = options.node_wait_seconds if options.on_node_loss == "wait" else 0.0
    profile = None if options.profile is None else read_device_profile(options.profile)
    on_ray = trials_on_ray(
        groups[0],
        measure,
        options.capture_time_limit_seconds,
        profile,
        options.framework_or_default,
        options.python_path,
    )
    settings = FleetSettings(on_ray, wait, _usable(options, groups))
    model = model_on(options.model, groups[0])
    fleet = Fleet(model, groups, settings, observer.say)
    try:
        if fleet.probing is not None:
            directory.write_probe(fleet.probing)
        if before:
            _take_up(fleet, *before)
        for line in _in_words(options, fleet):
            observer.say(line)
    except BaseException:
        fleet.close()
        raise
    return fleet


def _groups(options: TuneOptions, shrunk: bool, before: ClusterSpec | None) -> list[ClusterSpec]:
    """The groups of living nodes on which trials run, one group or several."""
    nodes = ray.nodes()
    if options.cluster is not None:
        whole = match_cluster(read_cluster_file(options.cluster), nodes, missing_ok=shrunk)
    else:
        whole = cluster_from_ray_nodes(nodes, options.workers)
    wanted = len(before.nodes) if before else options.nodes_per_trial or len(whole.nodes)
    if before and len(whole.nodes) < wanted:
        raise ClusterError(f"--resume needs {wanted} nodes, as the run had, but the cluster has {len(whole.nodes)}.")
    groups = groups_of(whole, min(wanted, len(whole.nodes)) if shrunk else wanted)
    groups = groups if options.nodes_per_trial else groups[:1]
    if before and (different := unlike_machines(before, groups[0])):
        raise ClusterError(f"--resume needs machines like the run's, but there are {different}; start a new run.")
    return groups


def _usable(options: TuneOptions, groups: list[ClusterSpec]) -> frozenset[str] | None:
    """Addresses of nodes that may serve as spares: those in the cluster file, or those that --workers has chosen. None
    means any node.
    """
    if options.cluster is not None:
        return frozenset(node.address for node in read_cluster_file(options.cluster).nodes)
    if options.workers is not None:
        return frozenset(address for group in groups for address in addresses_of(group))
    return None


def _take_up(fleet: Fleet, digest: str, stored: ClusterSpec) -> None:
    """Use the cluster as the run measured it, if model and cluster are unchanged. Raises `AutosyncError` if they are
    not.
    """
    if fleet.model.digest != digest:
        raise AutosyncError("--resume needs the same model, but it has changed since the run began; start a new run.")
    if different := alike(stored, fleet.cluster):
        raise ClusterError(f"--resume needs a cluster like the run's, but there are {different}; start a new run.")
    if fleet.cluster.digest != stored.digest:  # equal, except for a rate at a rounding edge
        fleet.adopt(stored)


def _in_words(options: TuneOptions, fleet: Fleet) -> Iterator[str]:
    yield model_line(options.model, fleet.cluster)
    yield from fleet.notes
    yield model_in_words(fleet.model)
    yield from cluster_lines(fleet.cluster)
    if fleet.cluster.paced:
        yield pace_explanation(fleet.cluster.numbers)
    if len(fleet) > 1:
        yield f"{len(fleet)} trials run at once, each on {count_of(len(fleet.cluster.nodes), 'node')} of its own."

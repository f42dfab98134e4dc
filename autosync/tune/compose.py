"""Composing a search: the one file that knows every room."""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import ray
from rich.console import Console

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator
from autosync.cost.protocol import Simulator
from autosync.dataset import RecordStore
from autosync.engine.zoo import ALIASES, default_space, resolve_name
from autosync.errors import AutosyncError, ClusterError
from autosync.search import EvolutionSearch, GuidedSearch, RandomSearch, Searcher, judge
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, TimingProtocol, strategy_faults
from autosync.tune.campaign import Campaign, Limits
from autosync.tune.finals import finalists, remeasure, seconds_for_finals
from autosync.tune.interruption import ctrl_c_is_ignored, ctrl_c_waits
from autosync.tune.options import TuneOptions
from autosync.tune.progress import Progress, Standing, duration, milliseconds
from autosync.tune.report import Outcome, outcome_json, outcome_table, verdict_in_words
from autosync.tune.run_directory import RunDirectory
from autosync.tune.spaces import load_space
from autosync.tune.tune_run import run_with_tune
from autosync.tune.words import cluster_in_words, model_in_words, strategy_in_words
from trials.backends.base import Backend
from trials.backends.ray_actors import RayBackend, RaySettings
from trials.discovery import cluster_from_ray_nodes
from trials.local_ray import RayStart, cpus_per_worker, start_ray
from trials.opening import check_model_name
from trials.worker_set import SetSettings

__all__ = ["make_searcher", "tune"]

PLAIN_WIDTH = 120
"""Columns where output does not go to a terminal."""


def tune(options: TuneOptions) -> int:
    """Run the search that `options` ask for, and print what it found; the exit status.

    Raises `AutosyncError` for what the user can put right, and `KeyboardInterrupt` on Ctrl-C, with everything kept,
    every process ended, and the way to go on printed.
    """
    # Names may hold brackets and colons, which are no markup.
    console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    _check_cheap_things(options)
    directory = RunDirectory.open(options)
    store = RecordStore.create(options.data)
    begin = time.monotonic()
    try:
        starts_here = not (options.address or os.environ.get("RAY_ADDRESS"))
        with ctrl_c_is_ignored() if starts_here else nullcontext():
            console.print(start_ray(RayStart(options.address, options.workers)))
        backend = _start_backend(options, directory, console)
        try:
            return _search(options, directory, store, backend, console, begin)
        finally:
            backend.close()
    finally:
        with ctrl_c_waits():
            ray.shutdown()
            store.compact()


def make_searcher(options: TuneOptions, space: SearchSpace, seeds: list[tuple[str, Strategy]]) -> Searcher:
    """The searcher called `options.searcher`, which proposes `seeds` first."""
    if options.searcher == "random":
        return RandomSearch(space, seeds, options.seed)
    if options.searcher == "evolution":
        return EvolutionSearch(space, seeds, options.seed)
    return GuidedSearch(space, seeds, options.seed, _make_simulator(options))


def _make_simulator(options: TuneOptions) -> Simulator:
    if options.simulator == "analytic":
        return AnalyticSimulator()
    from autosync.simulator import LearnedSimulator  # torch is imported only when it is asked for

    return LearnedSimulator(AnalyticSimulator(), seed=options.seed)


def _check_cheap_things(options: TuneOptions) -> None:
    """What can be refused before anything is started."""
    check_model_name(options.model)
    load_space(options.space or default_space(resolve_name(options.model, 0)))


def _start_backend(options: TuneOptions, directory: RunDirectory, console: Console) -> RayBackend:
    live = cluster_from_ray_nodes(ray.nodes(), options.workers)
    name = resolve_name(options.model, sum(node.gpus for node in live.nodes))
    if options.model in ALIASES:
        small, large = ALIASES[options.model]
        console.print(f"{options.model} is {name} here: {small} on CPUs, {large} on GPUs.")
    cluster = _as_before(directory.read_run()[1], live) if options.resume else live
    settings = RaySettings(
        workers=SetSettings(cpus_per_worker(cluster), import_paths=(os.getcwd(), *_own_source())),
        probe=not options.resume,
    )
    workers = len(cluster.server_devices)
    console.print(f"Starting {workers} worker process{'es' * (workers > 1)} and capturing {name} ...")
    backend = RayBackend(name, cluster, settings)
    console.print(model_in_words(backend.model))
    for line in (*backend.notes, *cluster_in_words(backend.cluster)):
        console.print(f"  {line}")
    if options.resume and backend.model.digest != directory.read_run()[0]:
        raise AutosyncError("--resume needs the same model, but it has changed since the run began; start a new run.")
    return backend


def _own_source() -> tuple[str, ...]:
    """Where autosync was imported from, so that workers on this machine import the same."""
    return (str(Path(__file__).resolve().parents[2]),)


def _as_before(stored: ClusterSpec, live: ClusterSpec) -> ClusterSpec:
    """The cluster as it was measured when the run began, at today's addresses. Raises `ClusterError` if it differs."""
    shapes = [[(node.name, node.workers, node.gpus) for node in each.nodes] for each in (stored, live)]
    if shapes[0] != shapes[1]:
        raise ClusterError(
            f"--resume needs a cluster like the run's, {len(stored.nodes)} node(s) with "
            f"{len(stored.server_devices)} workers, but this one has {len(live.nodes)} with {len(live.server_devices)}."
        )
    nodes = tuple(replace(old, address=new.address) for old, new in zip(stored.nodes, live.nodes, strict=True))
    return replace(stored, nodes=nodes)


def _seeds(model: ModelSpec, cluster: ClusterSpec) -> list[tuple[str, Strategy]]:
    """Every hand-written strategy that fits; those that make the same decisions count once, under the first name."""
    seeds: dict[str, tuple[str, Strategy]] = {}
    for name, baseline in BASELINES.items():
        strategy = baseline(model, cluster)
        if not any(strategy_faults(strategy, model, cluster)):
            seeds.setdefault(strategy.digest, (name, strategy))
    return list(seeds.values())


def _search(
    options: TuneOptions,
    directory: RunDirectory,
    store: RecordStore,
    backend: Backend,
    console: Console,
    begin: float,
) -> int:
    model, cluster = backend.model, backend.cluster
    space = load_space(options.space or default_space(model.name)).bind(model, cluster)
    seeds = _seeds(model, cluster)
    console.print(
        f"Space {space.name}: 10^{space.log10_size:.1f} strategies. "
        f"{len(seeds)} of {len(BASELINES)} hand-written ones differ here and are timed first."
    )
    searcher = make_searcher(options, space, seeds)
    earlier = _restore(options, directory, store, searcher)
    directory.write_run(options, model.digest, cluster)
    progress = Progress(console, options.trials, options.time_budget_seconds, time.monotonic)

    def save_state(_: RuntimeRecord) -> None:
        directory.write_state(campaign.state())

    campaign = Campaign(
        searcher,
        store,
        _protocol(options),
        directory.name,
        options.seed,
        _limits(options, begin, lambda: campaign.records),
        (save_state, progress),
    )
    campaign.take_up(earlier)
    progress.start_from(earlier)
    try:
        with progress:
            run_with_tune(campaign, backend, directory, model.name)
        return _finish(options, directory, store, backend, console, campaign, begin)
    except KeyboardInterrupt:
        # The state was saved with the last record; now, the searcher may be in the middle of a proposal.
        _print_interrupted(console, campaign, options)
        raise


def _restore(
    options: TuneOptions, directory: RunDirectory, store: RecordStore, searcher: Searcher
) -> list[RuntimeRecord]:
    """The run's earlier trials, with the searcher set to where it stood."""
    if not options.resume:
        return []
    state = directory.read_state()
    if state is not None:
        searcher.restore(state)
    return [each for each in store.read(run=directory.name) if each.purpose in ("baseline", "search")]


def _protocol(options: TuneOptions) -> TimingProtocol:
    return TimingProtocol(
        warmup_steps=options.warmup_steps,
        timed_steps=options.timed_steps,
        time_limit_seconds=options.trial_time_limit_seconds,
        stop_factor=options.stop_factor,
    )


def _limits(options: TuneOptions, begin: float, records: Callable[[], list[RuntimeRecord]]) -> Limits:
    """A time budget is for the whole run: what has gone by, and what the finals will take, count too."""

    def out_of_time() -> bool:
        gone = time.monotonic() - begin
        return gone + seconds_for_finals(records(), options.rounds) >= (options.time_budget_seconds or math.inf)

    return Limits(options.trials, out_of_time)


def _finish(
    options: TuneOptions,
    directory: RunDirectory,
    store: RecordStore,
    backend: Backend,
    console: Console,
    campaign: Campaign,
    begin: float,
) -> int:
    """Measure the finalists again, write the winner and the result, and print them."""
    chosen = finalists(campaign.records)
    if not chosen:
        console.print("No trial succeeded, so there is no strategy to return; the reasons stand above.")
        return 1
    console.print(f"Measuring the {len(chosen)} finalists again, {options.rounds} times in turns ...")
    rounds = remeasure(chosen, options.rounds, backend.run, store.append)
    baselines = {each.strategy.digest for each in campaign.records if each.purpose == "baseline"}
    verdict = judge(rounds, baselines, np.random.default_rng(options.seed))
    outcome = Outcome(backend.model, campaign.records, rounds, verdict)
    summary = strategy_in_words(verdict.winner, backend.model)
    directory.write_strategy(verdict.winner, summary)
    directory.write_result(outcome_json(outcome, time.monotonic() - begin))
    console.print()
    console.print(outcome_table(outcome))
    console.print()
    console.print(verdict_in_words(verdict), style="bold", soft_wrap=True)
    for line in summary:
        console.print(f"  {line}", soft_wrap=True)
    console.print(
        f"\n{len(campaign.records)} trials in {duration(time.monotonic() - begin)}. Strategy: {directory.strategy_file}"
        f"  Result: {directory.result_file}  Records: {options.data}",
        soft_wrap=True,
    )
    return 0


def _print_interrupted(console: Console, campaign: Campaign, options: TuneOptions) -> None:
    standing = Standing.of(campaign.records)
    console.print(f"\nStopped after {len(campaign.records)} trials; all of them are kept in {options.data}.")
    if standing.best is not None:
        console.print(
            f"Best so far, not re-measured: {standing.best.label} {standing.best.strategy.digest[:8]} with "
            f"{milliseconds(standing.best.median_seconds)} a step."
        )
    console.print(f"Go on with: python -m autosync.tune {_to_go_on(sys.argv[1:], options.out)}", soft_wrap=True)


def _to_go_on(arguments: list[str], out: Path) -> str:
    """The arguments of the command that goes on with this run."""
    named = any(each == "--out" or each.startswith("--out=") for each in arguments)
    more = [*([] if named else ["--out", str(out)]), *([] if "--resume" in arguments else ["--resume"])]
    return shlex.join([*arguments, *more])

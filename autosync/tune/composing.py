"""Composing a search: space, baselines, simulator, searcher and campaign are made, run and ended here."""

import math
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import ray

from autosync.baselines import BASELINES, different_strategies
from autosync.cost import AnalyticSimulator, Simulator
from autosync.engine.zoo import default_space
from autosync.errors import NodesLostError
from autosync.search import registry
from autosync.search.guided.searcher import GuidedOptions
from autosync.search.protocol import FIRST_BASELINES, Searcher
from autosync.search.searcher import Asked, LedgerSearch
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, TimingProtocol, strategy_faults
from autosync.tune.budget import Reserve, affordable
from autosync.tune.campaign import Campaign, Limits, restore
from autosync.tune.curves import SearchMetrics, SearchScalars
from autosync.tune.directory import asked
from autosync.tune.finishing import command_to_go_on, finish, print_interrupted
from autosync.tune.grid import is_of_grid, time_grid
from autosync.tune.job import Job
from autosync.tune.options import OptionsError, TuneOptions
from autosync.tune.patience import Patience
from autosync.tune.progress import Progress
from autosync.tune.ray_tune import run_with_tune
from autosync.tune.simulators import earlier_records, guide, leaves_room, make_simulator, simulator_in_words
from autosync.words.quantities import counted
from search_spaces import load_space
from trials.opening import read_strategy_file


def make_searcher(
    options: TuneOptions,
    space: SearchSpace,
    baselines: list[tuple[str, Strategy]],
    simulator: Simulator | None = None,
) -> LedgerSearch:
    """The searcher called `options.searcher`, which proposes `baselines` too, and is guided by `simulator` if given."""
    asked = Asked(
        space, baselines, options.seed, lambda: simulator or make_simulator(options, space.cluster), options.round_size
    )
    return registry.make_searcher(options.searcher, asked)


def idle_in_words(options: TuneOptions, lanes: int) -> Iterator[str]:
    """A sentence on what would keep more of the `lanes` busy, if rounds are too small for that."""
    size = options.round_size or GuidedOptions.round_size
    if options.searcher == "guided" and lanes > size:
        yield (
            f"{lanes} trials have room side by side, but a round of the search has {size}, which wait for each other; "
            f"--round-size {lanes} uses all nodes."
        )


def _guide(job: Job, space: SearchSpace, go_on: bool) -> Simulator | None:
    """The simulator that guides the search, if any does, with its records of other runs."""
    if job.options.searcher != "guided":
        return None
    earlier = earlier_records(job, go_on)
    for line in simulator_in_words(job.options, space.model, space.cluster, earlier):
        job.console.print(line, soft_wrap=True)
    beside = leaves_room(space.cluster, job.backend.addresses, ray.util.get_node_ip_address())
    return guide(job.options, space, earlier, beside)


def _baselines_in_words(model: ModelSpec, cluster: ClusterSpec, different: int, trials: int) -> Iterator[str]:
    """Sentences on which baselines come to the same here, and whether all are timed."""
    yield f"{different} of {len(BASELINES)} baselines differ here and are timed, if there is room."
    first: dict[str, str] = {}
    for name, baseline in BASELINES.items():
        same = first.setdefault(baseline(model, cluster).digest, name)
        if same != name:
            yield f"  {name} is the same as {same} here."
    if trials < 2 * different - FIRST_BASELINES:
        after = max(0, trials - FIRST_BASELINES)
        timed = min(trials, FIRST_BASELINES) + after // 2
        left = different - timed
        yield (
            f"  With --trials {trials}, {counted(trials - timed, 'candidate')} and {counted(timed, 'baseline')} are "
            f"timed; {counted(left, 'baseline')} {'is' if left == 1 else 'are'} not, and may be the best."
        )


def untimed_in_words(baselines: list[tuple[str, Strategy]], records: list[RuntimeRecord]) -> Iterator[str]:
    """A sentence on the baselines that no trial has timed, if there are any."""
    timed = {each.strategy.digest for each in records}
    names = [name for name, strategy in baselines if strategy.digest not in timed]
    if names:
        yield f"There was no room for {', '.join(names)}, so the best baseline may be missed."


def fitted(job: Job, space: SearchSpace, file: Path) -> Strategy:
    """The strategy in `file`, or the nearest in `space` where it does not fit. Raises `OptionsError` for one of another
    model.
    """
    strategy = read_strategy_file(file)
    names = space.domains.index_of
    if not set(names).intersection(strategy.by_name):
        raise OptionsError(
            f"--try-first is for strategies of {space.model.name}, but {file} decides on none of its variables; leave "
            "it out."
        )
    if set(strategy.replicas) == set(space.replicas) and not any(strategy_faults(strategy, space.model, space.cluster)):
        job.console.print(f"{file} is tried first.", soft_wrap=True)
        return strategy
    found = space.adopt(strategy, random.Random(job.options.seed))
    changed = sum(strategy.by_name.get(each.variable) != each for each in found.variables)
    job.console.print(
        f"{file} is tried first, for {counted(len(space.replicas), 'replica')} and with other decisions on {changed} "
        f"of {counted(len(names), 'variable')}, to fit here.",
        soft_wrap=True,
    )
    return found


def search(job: Job, go_on: bool) -> int:
    """Search from the first trial, or from where the run stood, to the verdict; return the exit status."""
    options, model, cluster = job.options, job.backend.model, job.backend.cluster
    declared = load_space(options.space or default_space(model.name))
    space = declared.without(*options.without_rules).bind(model, cluster)
    different = different_strategies(BASELINES, model, cluster)
    ordered, first_seconds = _fastest_first(different, model, cluster)
    # Kept results of searchers that rank no baselines are of the order given; it costs time where there is a budget.
    baselines = list(different.items()) if options.time_budget_seconds is None else ordered
    job.console.print(f"Space {space.name}: 10^{space.log10_size:.1f} strategies.")
    searcher = make_searcher(options, space, baselines, _guide(job, space, go_on))
    searcher.try_first([fitted(job, space, file) for file in options.try_first])
    earlier, elsewhere = _restore(job, searcher, go_on)
    trials = max(options.trials - elsewhere, len(baselines)) if elsewhere else options.trials
    for line in (
        *_baselines_in_words(model, cluster, len(baselines), trials),
        *idle_in_words(options, len(job.backend)),
    ):
        job.console.print(line, soft_wrap=True)
    if elsewhere:
        job.console.print(f"{elsewhere} trials of this run were on other nodes; they count, but do not compare.")
    job.directory.write_run(options, model.digest, cluster, asked(options, space, sys.argv[1:]))
    progress = Progress(job.console, trials, options.time_budget_seconds, lambda: job.seconds_gone)

    limits = _limits(job, trials, lambda: campaign.records, first_seconds)
    told = [each for each in earlier if each.outcome != "lost"]
    metrics = SearchMetrics(model.name, job.directory.name, job.backend.__len__, told)
    scalars = SearchScalars(job.directory.tune_directory / job.directory.name, told)
    watchers = (progress, metrics, scalars)
    campaign = Campaign(searcher, job, _protocol(options), job.directory.name, options.seed, limits, watchers)
    campaign.take_up(earlier)
    progress.start_from(told)
    try:
        with progress, closing(scalars):
            again = command_to_go_on(sys.argv[1:], options)
            run_with_tune(campaign, job.backend, job.directory, model.name, again)
        ended = [campaign.stopped_because or "", *untimed_in_words(baselines, campaign.records)]
        records = campaign.records
        if options.tuned_all_reduce:
            records = [*records, *time_grid(job, records, _protocol(options))]
        return finish(job, records, " ".join(ended))
    except NodesLostError:
        if options.on_node_loss != "shrink":
            print_interrupted(job, campaign.records, sys.argv[1:])
        raise
    except KeyboardInterrupt:
        # The state was saved with the last record; now, the searcher may be in the middle of a proposal.
        print_interrupted(job, campaign.records, sys.argv[1:])
        raise


def _restore(job: Job, searcher: Searcher, go_on: bool) -> tuple[list[RuntimeRecord], int]:
    """The run's earlier trials on this cluster, and how many were on another; sets the searcher to where it stood."""
    trials = [each for each in job.store.read(run=job.directory.name) if each.of_search and not is_of_grid(each)]
    here = [each for each in trials if each.cluster.digest == job.backend.cluster.digest]
    elsewhere = sum(each.outcome != "lost" for each in trials) - sum(each.outcome != "lost" for each in here)
    if go_on:
        state, _ = job.directory.read_state()
        if state is not None:
            restore(searcher, state)
    return here, elsewhere


def _protocol(options: TuneOptions) -> TimingProtocol:
    return TimingProtocol(
        warmup_steps=options.warmup_steps,
        timed_steps=options.timed_steps,
        time_limit_seconds=options.trial_time_limit_seconds,
        stop_factor=options.stop_factor,
    )


def _fastest_first(
    baselines: dict[str, Strategy], model: ModelSpec, cluster: ClusterSpec
) -> tuple[list[tuple[str, Strategy]], float]:
    """The baselines in the order of the closed form's predictions, and predicted step seconds of the first."""
    predicted = AnalyticSimulator().predict(model, cluster, [*baselines.values()])
    order = np.argsort(predicted, kind="stable")
    labelled = [*baselines.items()]
    return [labelled[place] for place in order], math.exp(float(predicted.min()))


def _limits(job: Job, trials: int, records: Callable[[], list[RuntimeRecord]], first_seconds: float) -> Limits:
    """The search's limits. Its time is out when the rest is needed for the finals; see `autosync.tune.budget`.

    `first_seconds` are the expected step seconds of a first trial for which the searcher predicts none.
    """
    options = job.options

    def out_of_time(more: int) -> bool:
        reserve = Reserve(options.rounds, options.counterfactuals, max(1, len(job.backend)))
        return reserve.is_out_of_time(more, records(), job.seconds_left)

    def shortened(protocol: TimingProtocol, step_seconds: float | None) -> TimingProtocol:
        return affordable(protocol, step_seconds or first_seconds, options.time_budget_seconds)

    return Limits(trials, out_of_time, Patience(options.patience, options.training_steps), shortened)

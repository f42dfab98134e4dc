"""Builds the parts of a search (space, baselines, simulator, searcher, campaign), runs them, and ends the search."""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import ray

from autosync.baselines import Baseline
from autosync.cost import PRIORS, AnalyticSimulator, Simulator
from autosync.errors import NodesLostError
from autosync.search import registry
from autosync.search.guided.searcher import GuidedOptions
from autosync.search.protocol import FIRST_BASELINES, Searcher
from autosync.search.searcher import LedgerSearch, SearcherArguments
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, TimingProtocol, strategy_faults
from autosync.tune.budget import Reserve, affordable, too_few_in_words
from autosync.tune.campaign import Campaign, SearchLimits, restore
from autosync.tune.candidates import Candidates
from autosync.tune.curves import SearchMetrics, SearchScalars
from autosync.tune.directory import run_description
from autosync.tune.events import report_search
from autosync.tune.finishing import command_to_resume, finish, print_interrupted
from autosync.tune.grid import is_of_grid, time_grid
from autosync.tune.job import Job
from autosync.tune.options import OptionsError, TuneOptions
from autosync.tune.patience import Patience
from autosync.tune.ray_tune import run_with_tune
from autosync.tune.refusals import refusals_of
from autosync.tune.result import SearchResult
from autosync.tune.simulators import earlier_records, guide, leaves_room, make_simulator, simulator_in_words
from autosync.words.quantities import count_of
from trials.opening import read_strategy_file


def make_searcher(
    options: TuneOptions,
    space: SearchSpace,
    baselines: list[tuple[str, Strategy]],
    simulator: Simulator | None = None,
) -> LedgerSearch:
    """The searcher called `options.searcher`, which also proposes `baselines` and is guided by `simulator` if given."""
    asked = SearcherArguments(
        space, baselines, options.seed, lambda: simulator or make_simulator(options, space.cluster), options.round_size
    )
    return registry.make_searcher(options.searcher, asked)


def idle_in_words(options: TuneOptions, lanes: int) -> Iterator[str]:
    """A sentence on idle lanes, if a round of the search has fewer trials than there are `lanes`."""
    size = options.round_size or GuidedOptions.round_size
    if options.searcher == "guided" and lanes > size:
        yield (
            f"{lanes} trials fit on the cluster at once, but a round of the search has only {size}, and the next round "
            f"waits for it; --round-size {lanes} uses all nodes."
        )


def _guide(job: Job, space: SearchSpace, go_on: bool) -> Simulator | None:
    """The simulator that guides the search, with its records of other runs; None if the searcher uses none."""
    if job.options.searcher != "guided":
        return None
    earlier = earlier_records(job, go_on)
    for line in simulator_in_words(job.options, space.model, space.cluster, earlier):
        job.observer.say(line)
    in_parallel = leaves_room(space.cluster, job.backend.addresses, ray.util.get_node_ip_address())
    return guide(job.options, space, earlier, in_parallel)


def _baselines_in_words(
    known: Mapping[str, Baseline], model: ModelSpec, cluster: ClusterSpec, different: int, trials: int, early: int
) -> Iterator[str]:
    """Sentences on baselines that are equal on this cluster, and on baselines that will not be timed.

    The first `early` trials are baselines; half of the later ones are.
    """
    yield f"{different} of {len(known)} baselines differ on this cluster; each is timed if the budget allows."
    first: dict[str, str] = {}
    for name, baseline in known.items():
        same = first.setdefault(baseline(model, cluster).digest, name)
        if same != name:
            yield f"  {name} equals {same} on this cluster."
    if trials < 2 * different - early:
        timed = min(trials, early) + max(0, trials - early) // 2
        left, candidates = different - timed, count_of(trials - timed, "candidate")
        yield (
            f"  With --trials {trials}, {count_of(timed, 'baseline')} and at most {candidates} are timed; "
            f"{count_of(left, 'baseline')} {'is' if left == 1 else 'are'} not, and might be the fastest."
        )


def missing_baselines_in_words(baselines: list[tuple[str, Strategy]], records: list[RuntimeRecord]) -> Iterator[str]:
    """A sentence on the baselines that no trial has timed, if there are any."""
    timed = {record.strategy.digest for record in records}
    names = [name for name, strategy in baselines if strategy.digest not in timed]
    if names:
        yield f"Not timed for lack of budget: {', '.join(names)}; the fastest baseline may be among them."


def fit_to_space(job: Job, space: SearchSpace, file: Path) -> Strategy:
    """The strategy in `file`, or the nearest one in `space` if it does not fit. Raises `OptionsError` for a strategy of
    another model.
    """
    strategy = read_strategy_file(file)
    names = space.domains.index_of
    if not set(names).intersection(strategy.by_name):
        raise OptionsError(
            f"--try-first needs a strategy for {space.model.name}, but {file} has none of its variables; leave it out."
        )
    if set(strategy.replicas) == set(space.replicas) and not (
        any(strategy_faults(strategy, space.model, space.cluster))
        or refusals_of(job.options.framework_or_default, {"": strategy}, space.model, space.cluster)
    ):
        job.observer.say(f"{file} is timed first.")
        return strategy
    adopted = space.adopt(strategy, random.Random(job.options.seed))
    changed = sum(strategy.by_name.get(decision.variable) != decision for decision in adopted.variables)
    job.observer.say(
        f"{file} is timed first, adapted to this cluster: {count_of(len(space.replicas), 'replica')}, and "
        f"other decisions on {changed} of {count_of(len(names), 'variable')}"
        f"{_lost_overlap(strategy, adopted)}."
    )
    return adopted


def _lost_overlap(strategy: Strategy, adopted: Strategy) -> str:
    lost = strategy.overlap_next_forward and not adopted.overlap_next_forward
    return ", and a barrier after each step" if lost else ""


def search(job: Job, go_on: bool) -> SearchResult | None:
    """Run a new or resumed search up to its verdict; return the result, or None without a verdict."""
    options, model, cluster = job.options, job.backend.model, job.backend.cluster
    candidates = Candidates.of(options, model, cluster)
    space, known, different = candidates.space, candidates.baselines, candidates.different
    ordered, first_seconds = _fastest_first(different, model, cluster, options.framework_in_records)
    # Without a budget the given order stays: kept results of searchers that rank no baselines depend on it. With a
    # budget, the fastest come first, because there may be no time for all.
    baselines = list(different.items()) if options.time_budget_seconds is None else ordered
    job.observer.say(f"Search space {space.name}: 10^{space.log10_size:.1f} strategies.")
    searcher = make_searcher(options, space, baselines, _guide(job, space, go_on))
    default = [different[name] for name in ("ddp",) if name in different]  # users compare their results with it
    searcher.try_first([*default, *(fit_to_space(job, space, file) for file in options.try_first)])
    earlier, elsewhere = _restore(job, searcher, go_on)
    trials = max(options.trials - elsewhere, len(baselines)) if elsewhere else options.trials
    for line in (
        *(f"Baseline {sentence}" for sentence in candidates.refusals),
        *_baselines_in_words(known, model, cluster, len(baselines), trials, FIRST_BASELINES + len(default)),
        *idle_in_words(options, len(job.backend)),
        *too_few_in_words(_protocol(options)),
    ):
        job.observer.say(line)
    if elsewhere:
        job.observer.say(
            f"{elsewhere} trials of this run were on other nodes: they count towards --trials, but their times are not "
            "compared."
        )
    job.directory.write_run(options, model.digest, cluster, run_description(options, space, job.arguments))
    told = [record for record in earlier if record.outcome != "lost"]
    report_search(job, space, trials, len(told))
    progress = job.observer.trials(trials, options.time_budget_seconds, lambda: job.seconds_gone)

    limits = _limits(job, trials, lambda: campaign.records, first_seconds)
    metrics = SearchMetrics(model.name, job.directory.name, job.backend.__len__, told)
    scalars = SearchScalars(job.directory.tune_directory / job.directory.name, told)
    watchers = (progress, metrics, scalars)
    campaign = Campaign(searcher, job, _protocol(options), job.directory.name, options.seed, limits, watchers)
    campaign.take_up(earlier)
    progress.start_from(told)
    try:
        with progress, closing(scalars):
            again = command_to_resume(job.arguments, options)
            run_with_tune(campaign, job.backend, job.directory, model.name, again, job.tune_callbacks)
        ended = [campaign.stop_reason or "", *missing_baselines_in_words(baselines, campaign.records)]
        records = campaign.records
        if options.tuned_all_reduce:
            records = [*records, *time_grid(job, records, _protocol(options))]
        return finish(job, records, " ".join(ended))
    except NodesLostError:
        if options.on_node_loss != "shrink":
            print_interrupted(job, campaign.records, job.arguments)
        raise
    except KeyboardInterrupt:
        # The state was saved with the last record; now, the searcher may be in the middle of a proposal.
        print_interrupted(job, campaign.records, job.arguments)
        raise


def _restore(job: Job, searcher: Searcher, go_on: bool) -> tuple[list[RuntimeRecord], int]:
    """Restore the searcher; return the run's earlier trials on this cluster, and the number on other clusters."""
    trials = [
        record for record in job.store.read(run=job.directory.name) if record.of_search and not is_of_grid(record)
    ]
    here = [record for record in trials if record.cluster.digest == job.backend.cluster.digest]
    elsewhere = sum(record.outcome != "lost" for record in trials) - sum(record.outcome != "lost" for record in here)
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
    baselines: Mapping[str, Strategy], model: ModelSpec, cluster: ClusterSpec, framework: str | None
) -> tuple[list[tuple[str, Strategy]], float]:
    """The baselines, fastest first by the closed form's predictions, and the predicted step seconds of the first."""
    predicted = AnalyticSimulator(PRIORS[framework]).predict(model, cluster, [*baselines.values()])
    order = np.argsort(predicted, kind="stable")
    labelled = [*baselines.items()]
    return [labelled[place] for place in order], math.exp(float(predicted.min()))


def _limits(job: Job, trials: int, records: Callable[[], list[RuntimeRecord]], first_seconds: float) -> SearchLimits:
    """The search's limits. Its time is used up once the finals need the rest; see `autosync.tune.budget`.

    `first_seconds` are the expected step seconds of a first trial for which the searcher predicts none.
    """
    options = job.options

    def out_of_time(more: int) -> bool:
        reserve = Reserve(options.rounds, options.counterfactuals, max(1, len(job.backend)))
        return reserve.is_out_of_time(more, records(), job.seconds_left)

    def shorten(protocol: TimingProtocol, step_seconds: float | None) -> TimingProtocol:
        return affordable(protocol, step_seconds or first_seconds, options.time_budget_seconds)

    return SearchLimits(trials, out_of_time, Patience(options.patience, options.training_steps), shorten)

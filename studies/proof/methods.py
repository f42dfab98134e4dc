"""The methods that are compared: each gets the same number of trials on one cell and returns their records in order."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

from autosync.baselines import baselines_for, different_strategies
from autosync.cost import PRIORS, AnalyticSimulator, Simulator
from autosync.search import registry
from autosync.search.searcher import LedgerSearch, SearcherArguments
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, TimingProtocol
from autosync.tune.campaign import Campaign, SearchLimits
from autosync.tune.options import TuneOptions
from autosync.tune.refusals import can_overlap, refusals_of, sends_rows_apart
from autosync.tune.simulators import make_simulator
from autosync.zoo import default_space
from search_spaces import load_space
from studies.bench.contenders import OURS, untaught
from studies.proof.by_hand import all_reduce_by_hand, ddp_by_hand
from studies.proof.cells import DEFAULT, FRAMEWORK, ProofJob
from studies.proof.timing import JobTimer
from trials.trial import TrialRequest

TRIALS = 30
"""Trials of each method."""

PROTOCOL = TimingProtocol(warmup_steps=2, timed_steps=10, time_limit_seconds=90.0, stop_factor=1.5)
"""Two warm-up steps, because DDP with a static graph makes its final buckets in its third step. Clearly slow strategies
are stopped early, as in a search."""

BASELINES, DDP, ALL_REDUCE = "baselines", "ddp by hand", "all-reduce by hand"
SEARCHERS = (OURS, "tpe", "gp", "evolution", "random", "original")
METHODS = (DDP, ALL_REDUCE, *SEARCHERS)
"""The methods that are compared."""

ORDER = (DDP, ALL_REDUCE, BASELINES, *SEARCHERS)
"""The order in which methods run. `BASELINES` times the baselines that are left, so that the best one is known.

Methods by hand come first, because their trials are stopped early only in comparison with each other.
"""


@final
class _Nowhere:
    """Stores nothing, because the timer keeps the records and a resumed search repeats its proposals."""

    def append(self, record: RuntimeRecord) -> None:
        """Do nothing: the record is kept."""

    def save_state(self, state: dict[str, Any]) -> None:
        """Do nothing: the same records give the same search again."""


@final
@dataclass(frozen=True)
class MethodRun:
    """The outcome of a method on a job."""

    method: str
    records: tuple[RuntimeRecord, ...]
    """In order; a record that several methods share has this method's label and prediction."""
    thinking_seconds: float
    """Seconds that the method took in addition to its trials."""


@final
@dataclass(frozen=True)
class Methods:
    """Runs the methods on one job."""

    job: ProofJob
    model: ModelSpec
    """With the kept profile, so that a resumed job makes the same proposals."""
    cluster: ClusterSpec
    timer: JobTimer
    checkpoint: Path
    """The simulator of guided search, taught by other models on other clusters."""
    trials: int = TRIALS
    protocol: TimingProtocol = PROTOCOL
    clock: Callable[[], float] = time.monotonic

    @property
    def baselines(self) -> dict[str, Strategy]:
        """The different baselines that the engine, or DDP itself, carries out."""
        known = baselines_for(FRAMEWORK)
        named = {name: baseline(self.model, self.cluster) for name, baseline in known.items()}
        left_out = refusals_of(FRAMEWORK, named, self.model, self.cluster)
        kept = {name: baseline for name, baseline in known.items() if name not in left_out}
        return different_strategies(kept, self.model, self.cluster)

    def run(self, method: str) -> MethodRun:
        """Run one of `METHODS`, or `BASELINES`. Raises `OutOfTimeError` and `TrialError`."""
        begin, trial_seconds, best = self.clock(), 0.0, math.inf

        def time_once(request: TrialRequest) -> RuntimeRecord:
            nonlocal trial_seconds, best
            before = self.clock()
            if request.best_median_seconds is None and best < math.inf:
                request = replace(request, best_median_seconds=best)
            record = self.timer.once(request)
            trial_seconds += self.clock() - before
            best = min(best, record.median_seconds or math.inf)
            return record

        if method == BASELINES:
            records = self._time_all(self.baselines, time_once)
        elif method == DDP:
            tried = list(ddp_by_hand(self.model, self.cluster).items())[: self.trials]
            records = self._time_all(dict(tried), time_once)
        elif method == ALL_REDUCE:
            by_hand = partial(self._time, run=time_once)
            records = list(all_reduce_by_hand(self.model, self.cluster, by_hand, self.trials))
        else:
            records = self._search(method, time_once)
        return MethodRun(method, tuple(records), self.clock() - begin - trial_seconds)

    def rehearse(self) -> None:
        """Run a trial of DDP that is not kept."""
        self.timer.rehearse(self._request(DEFAULT, self.baselines[DEFAULT]))

    def _request(self, label: str, strategy: Strategy) -> TrialRequest:
        return TrialRequest(strategy, self.protocol, "baseline", label, self.job.run, self.job.seed)

    def _time(self, label: str, strategy: Strategy, run: Callable[[TrialRequest], RuntimeRecord]) -> RuntimeRecord:
        return run(self._request(label, strategy))

    def _time_all(
        self, named: Mapping[str, Strategy], run: Callable[[TrialRequest], RuntimeRecord]
    ) -> list[RuntimeRecord]:
        return [self._time(label, strategy, run) for label, strategy in named.items()]

    def _search(self, name: str, run: Callable[[TrialRequest], RuntimeRecord]) -> list[RuntimeRecord]:
        """Search as `autosync tune` does: DDP's default first, then the searcher's own proposals."""
        limits = SearchLimits(self.trials)
        campaign = Campaign(self._searcher(name), _Nowhere(), self.protocol, self.job.run, self.job.seed, limits)
        campaign.run(run)
        return campaign.records

    def _searcher(self, name: str) -> LedgerSearch:
        baselines = self.baselines
        simulator = partial(self._simulator, name)
        arguments = SearcherArguments(self._space(), [*baselines.items()], self.job.seed, simulator, lag=0)
        searcher = registry.make_searcher(name, arguments)
        searcher.try_first([baselines[DEFAULT]])
        return searcher

    def _space(self) -> SearchSpace:
        overlaps = can_overlap(FRAMEWORK, self.model, self.cluster)
        space = load_space(default_space(self.model.name))
        return space.bind(self.model, self.cluster, overlaps, sends_rows_apart(FRAMEWORK))

    def _simulator(self, name: str) -> Simulator:
        """Return the simulator of `autosync tune` for guided search; its authors' for `original`, taught as it runs."""
        if name != OURS:
            return untaught(AnalyticSimulator(PRIORS[FRAMEWORK]))
        options = TuneOptions.create(
            model=self.model.name,
            framework=FRAMEWORK,
            searcher=name,
            warm_start=self.checkpoint,
            seed=self.job.seed,
            out=Path(),
        )
        return make_simulator(options, self.cluster)

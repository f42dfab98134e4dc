"""Searches whose trials take made-up time: a real searcher, the real trial loop, and steps that do nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from io import StringIO
from pathlib import Path
from typing import Any, Protocol, final

from rich.console import Console

from autosync.baselines import BASELINES
from autosync.dataset import RecordStore
from autosync.errors import DatasetError, TrialError
from autosync.search.searcher import LedgerSearch
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, TimingProtocol
from autosync.tune.campaign import Campaign, Keeper, SearchLimits
from autosync.tune.composing import make_searcher
from autosync.tune.directory import RunDirectory
from autosync.tune.job import Job
from autosync.tune.options import TuneOptions
from autosync.tune.terminal import TerminalObserver
from search_spaces import load_space
from tests.cases import mlp_model, star_cluster
from tests.trials.scripted import ScriptedStep
from trials.clock import Environment, FakeClock
from trials.fleet.lanes import Backend, RunOnLane
from trials.trial import TrialRequest, TrialSetup, run_trial

__all__ = [
    "CLUSTER",
    "MODEL",
    "PROTOCOL",
    "Kept",
    "OneLane",
    "PretendBackend",
    "campaign",
    "options",
    "pretended_job",
    "printed",
    "searcher",
]

MODEL, CLUSTER = mlp_model(), star_cluster(2)
PROTOCOL = TimingProtocol(warmup_steps=1, timed_steps=3, stop_factor=1.5)
GIVEN = ("parameter_server", "all_reduce_25mb", "all_reduce_per_variable")


@final
class Kept:
    """Keeps records and the searcher's last state in memory; full after a number of records."""

    def __init__(self, full_after: int | None = None) -> None:
        self.records: list[RuntimeRecord] = []
        self.state: dict[str, Any] = {}
        self._full_after = full_after

    def append(self, record: RuntimeRecord) -> None:
        if len(self.records) == self._full_after:
            raise DatasetError("The disk is full.")
        self.records.append(record)

    def save_state(self, state: dict[str, Any]) -> None:
        self.state = json.loads(json.dumps(state))


@final
class PretendBackend:
    """The trial loop on a made-up clock; strategies in `broken` cannot be realized."""

    model: ModelSpec = MODEL
    cluster: ClusterSpec = CLUSTER

    def __init__(self, broken: Collection[str] = ()) -> None:
        self._broken = frozenset(broken)
        self._stage = TrialSetup(MODEL, CLUSTER, FakeClock(), Environment.here())

    def realize(self, strategy: Strategy) -> ScriptedStep:
        if strategy.digest in self._broken:
            raise RuntimeError("this one is broken")
        return ScriptedStep(lambda: 0.5)

    def run(self, request: TrialRequest) -> RuntimeRecord:
        return run_trial(self, request, self._stage)

    def close(self) -> None:
        """There is no process to end."""


@final
class OneLane:
    """A back end as the only lane."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._taken = False

    @property
    def model(self) -> ModelSpec:
        return self._backend.model

    @property
    def cluster(self) -> ClusterSpec:
        return self._backend.cluster

    def take(self) -> str | None:
        if self._taken:
            return None
        self._taken = True
        return "lane0"

    def give_back(self, lane: str, failure: str = "") -> None:
        assert lane == "lane0", lane
        self._taken = False
        if failure:
            raise TrialError(failure)

    def runner(self) -> RunOnLane:
        backend = self._backend
        return lambda _lane, request: backend.run(request)


def options(out: Path = Path("unused"), **values: object) -> TuneOptions:
    return TuneOptions.create(**({"model": "mlp", "out": out} | values))


class _Runs(Protocol):
    def run(self, request: TrialRequest) -> RuntimeRecord: ...


def pretended_job(directory: Path, backend: _Runs, **values: object) -> Job:
    """A run in `directory` that has just begun: `backend` runs its trials, and its output is kept."""
    chosen = options(directory / "run", data=directory / "data", **values)
    run = RunDirectory.open(chosen)
    run.write_run(chosen, MODEL.digest, CLUSTER)
    console = Console(file=StringIO(), width=200)
    return Job(chosen, run, RecordStore.create(chosen.data), backend, TerminalObserver(console), time.monotonic())  # type: ignore[arg-type]


def printed(job: Job) -> str:
    return job.observer.console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def searcher(name: str, seed: int = 1) -> LedgerSearch:
    space = load_space("default").bind(MODEL, CLUSTER)
    baselines = [(label, BASELINES[label](MODEL, CLUSTER)) for label in GIVEN]
    return make_searcher(options(searcher=name, simulator="analytic", seed=seed), space, baselines)


def campaign(
    name: str,
    limits: SearchLimits,
    store: Keeper | None = None,
    watchers: tuple[Callable[[RuntimeRecord], None], ...] = (),
) -> Campaign:
    """A campaign of the searcher called `name`, always with the same seed."""
    return Campaign(searcher(name), store or Kept(), PROTOCOL, "pretended", 1, limits, watchers)

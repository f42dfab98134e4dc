"""Work that Ray does in parallel with a search's trials: fitting its simulator and reading the records of other
runs.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import ray
from ray.exceptions import RayActorError
from rich.console import Console

from autosync.baselines import BASELINES
from autosync.cost import TransferSimulator
from autosync.dataset import RecordStore
from autosync.engine.core.versions import ENGINE, VERSIONS
from autosync.spec import ClusterSpec, KeptPace, ModelSpec, Pace, RuntimeRecord, Strategy
from autosync.spec.record import ENGINE_IN_VERSIONS
from autosync.tune import simulators as earlier_records_module
from autosync.tune.directory import RunDirectory
from autosync.tune.job import Job
from autosync.tune.remote_simulator import RemoteSimulator
from autosync.tune.simulators import earlier_records
from autosync.tune.terminal import TerminalObserver
from tests import cases
from tests.tune.pretend import CLUSTER, MODEL, PretendBackend, options
from tests.tune.records import found, record


@pytest.fixture(scope="module", autouse=True)
def one_ray() -> Iterator[None]:
    joined = os.environ.pop("RAY_ADDRESS", None)
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, log_to_driver=False)
    yield
    ray.shutdown()
    if joined is not None:
        os.environ["RAY_ADDRESS"] = joined


STRATEGIES = found(3)
RECORDS = [record(strategy, [1.0]) for strategy in found(40)]


@dataclass
class Noting:
    """A simulator that predicts the number of records it was fitted on, and notes its process and its scheduling."""

    count: int = 0
    process: int = 0
    policy: int = 0
    fit_seconds: float = 0.0

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> np.ndarray:
        del model, cluster, strategies
        return np.array([self.count, self.process, self.policy], dtype=np.float64)

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[np.ndarray, np.ndarray]:
        log_seconds = self.predict(model, cluster, strategies)
        return log_seconds, np.full(len(log_seconds), 1.0 / (1 + self.count))

    def fit(self, records: Sequence[RuntimeRecord]) -> None:
        time.sleep(self.fit_seconds)
        self.count, self.process, self.policy = len(records), os.getpid(), os.sched_getscheduler(0)


def remote(in_parallel: bool = True, fit_seconds: float = 0.0) -> RemoteSimulator:
    return RemoteSimulator(TransferSimulator(Noting(fit_seconds=fit_seconds), [], MODEL, CLUSTER), in_parallel)


def known_after(made: RemoteSimulator, count: int) -> int:
    """The number of records behind the predictions after a call of `fit` with `count` records."""
    made.fit(RECORDS[:count])
    return int(made.predict(MODEL, CLUSTER, STRATEGIES)[0])


@pytest.mark.thorough
@pytest.mark.parametrize("in_parallel", [True, False])
def test_predictions_come_from_the_fit_that_the_call_before_began(in_parallel: bool) -> None:
    made = remote(in_parallel)
    assert int(made.predict(MODEL, CLUSTER, STRATEGIES)[0]) == 0
    assert [known_after(made, count) for count in (12, 16, 20, 20, 24)] == [12, 12, 16, 20, 20]


@pytest.mark.thorough
def test_a_fit_that_knows_too_few_of_the_records_is_not_used() -> None:
    made = remote()
    assert [known_after(made, count) for count in (0, 13, 17, 40)] == [0, 13, 13, 40]
    _, spread = made.predict_with_spread(MODEL, CLUSTER, STRATEGIES)
    assert spread is not None
    assert spread[0] == 1 / 41, "how sure it is, is of the same fit"


@pytest.mark.thorough
def test_one_that_goes_on_from_saved_records_predicts_as_if_never_stopped() -> None:
    whole, resumed = remote(), remote()
    for count in (12, 16, 20):
        known_after(whole, count)
    known_after(resumed, 20)
    assert known_after(whole, 24) == known_after(resumed, 24) == 20


@pytest.mark.thorough
def test_a_fit_runs_in_a_process_of_its_own_which_gives_way_to_all_others() -> None:
    made = remote()
    assert known_after(made, 12) == 12
    assert int(made.predict(MODEL, CLUSTER, STRATEGIES)[1]) == os.getpid(), "a fit that is waited for gives no way"
    known_after(made, 16)
    assert made._begun is not None
    ray.wait([made._begun.answer])
    assert known_after(made, 20) == 16
    _, process, policy = made.predict(MODEL, CLUSTER, STRATEGIES)
    assert process != os.getpid()
    assert policy == os.SCHED_IDLE
    assert os.getsid(int(process)) == int(process), "the kernel shares processors among sessions"


@pytest.mark.thorough
def test_who_begins_a_fit_does_not_wait_for_it() -> None:
    made = remote(fit_seconds=2.0)
    made.fit(RECORDS[:12])
    begin = time.monotonic()
    assert known_after(made, 16) == 12
    assert time.monotonic() - begin < 1.5, "the second fit alone takes two seconds"


def end_process(made: RemoteSimulator) -> None:
    ray.kill(made._fitter)
    with contextlib.suppress(RayActorError):
        while True:  # the actor may still answer for a moment
            ray.get(made._fitter.fit_simulator.remote([]))


@pytest.mark.thorough
def test_when_its_process_has_died_the_fit_is_made_here() -> None:
    made = remote()
    assert known_after(made, 12) == 12
    end_process(made)
    assert [known_after(made, count) for count in (16, 20)] == [12, 16]
    assert int(made.predict(MODEL, CLUSTER, STRATEGIES)[1]) == os.getpid()


def elsewhere(base: RuntimeRecord, number: int, **changed: object) -> RuntimeRecord:
    """A record of another run."""
    return replace(base, run=f"other-{number}", started_at=float(number), **changed)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    chosen = options(tmp_path / "run", data=tmp_path / "data")
    directory, store = RunDirectory.open(chosen), RecordStore.create(chosen.data)
    return Job(chosen, directory, store, PretendBackend(), TerminalObserver(Console()), 0.0)


@pytest.mark.thorough
def test_records_of_other_runs_are_read_the_likest_first_and_the_same_again_when_a_search_goes_on(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert earlier_records(job, go_on=False) == []
    same = [elsewhere(RECORDS[number], number) for number in range(3)]
    of_model = elsewhere(RECORDS[3], 3, cluster=cases.rack_cluster())
    other_model = cases.ncf_like_model()
    others = BASELINES["parameter_server"](other_model, RECORDS[4].cluster)
    of_cluster = elsewhere(RECORDS[4], 4, model=other_model, strategy=others)
    of_neither = elsewhere(RECORDS[5], 5, cluster=cases.rack_cluster(), model=other_model, strategy=others)
    failed = elsewhere(RECORDS[6], 6, outcome="failed", reason="it broke", step_seconds=())
    own_record = replace(RECORDS[7], run=job.directory.name)
    for kept in (*same, of_model, of_cluster, of_neither, failed, own_record):
        job.store.append(kept)
    chosen = earlier_records(job, go_on=False)
    assert sorted(chosen, key=lambda timing: timing.started_at) == [*same, of_model, of_cluster]
    job.store.append(elsewhere(RECORDS[8], 8))
    assert earlier_records(job, go_on=True) == chosen
    monkeypatch.setattr(earlier_records_module, "MOST", 4)
    fewer = earlier_records(job, go_on=False)
    assert {timing.started_at for timing in fewer} == {0.0, 1.0, 2.0, 8.0}


def test_records_of_another_kind_take_no_place_among_those_that_are_chosen(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier_records_module, "MOST", 4)
    cluster = cases.rack_cluster()
    real = [elsewhere(RECORDS[number], number, cluster=cluster) for number in range(4)]
    paced = replace(cluster, nodes=tuple(replace(node, pace=Pace(0.0, 0.1)) for node in cluster.nodes))
    kept = KeptPace("virtual", "recorded", 0, (0.1,), (0.1,), (0.0,), (0.0,))
    others = [elsewhere(RECORDS[number], number, cluster=paced) for number in range(4, 10)]
    for other in (*real, *others, replace(others[0], pace=kept)):
        job.store.append(other)
    assert sorted(earlier_records(job, go_on=False), key=lambda earlier_record: earlier_record.started_at) == real


def test_a_search_on_pytorch_learns_from_pytorch_s_records_of_its_engine_s_version_only(job: Job) -> None:
    present, older = ({ENGINE_IN_VERSIONS: str(VERSIONS["pytorch"] - less)} for less in (0, 1))
    of_torch = [elsewhere(RECORDS[number], number, framework="pytorch", versions=present) for number in range(2)]
    others = [elsewhere(RECORDS[2], 2), elsewhere(RECORDS[3], 3, framework="pytorch", versions=older)]
    for kept in (*of_torch, *others):
        job.store.append(kept)
    on_torch = replace(job, options=job.options.model_copy(update={"framework": "pytorch"}))
    assert sorted(earlier_records(on_torch, go_on=False), key=lambda timing: timing.started_at) == of_torch
    assert earlier_records(job, go_on=False) == [others[0]]


def test_records_of_another_engine_are_not_learned_from_and_that_is_said(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    present = [elsewhere(RECORDS[number], number) for number in range(2)]
    older = elsewhere(RECORDS[2], 2, versions={ENGINE_IN_VERSIONS: str(ENGINE - 1)})
    oldest = elsewhere(RECORDS[3], 3, versions={ENGINE_IN_VERSIONS: "012345678901"})
    for kept in (*present, older, oldest):
        job.store.append(kept)
    assert sorted(earlier_records(job, go_on=False), key=lambda earlier_record: earlier_record.started_at) == present
    assert [timing.engine for timing in (*present, older, oldest)] == [ENGINE, ENGINE, ENGINE - 1, 0]
    assert "The search does not learn from 2 records of other runs, because" in capsys.readouterr().out

"""The contract of back ends: a record for every outcome, equal sequences for equal seeds, no process left behind."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ray
import tensorflow  # noqa: F401 - loaded before tests/conftest.py splits this process's CPU into devices

from autosync.baselines import BASELINES
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.errors import ClusterError, ModelError, TrialError
from autosync.search.protocol import Proposal, run_search
from autosync.search.registry import make_searcher
from autosync.search.searcher import SearcherArguments
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    DeviceProfile,
    RuntimeRecord,
    Strategy,
    TimingProtocol,
    VariableStrategy,
)
from autosync.zoo import build_task
from search_spaces.default import SPACE
from tests import cases
from tests.contracts.processes import children, interrupted, is_alive, kill_once_it_lives, left_of, places_held
from tests.search.laws import rough_simulator
from trials.clock import Clock, FakeClock, WallClock
from trials.cluster.discovery import cluster_from_ray_nodes, local_cluster
from trials.fleet.lanes import Backend
from trials.fleet.local_backend import LocalBackend
from trials.fleet.on_ray import Launch, RayBackend, RaySettings
from trials.trial import CLEAR_STEPS, TrialRequest
from trials.workers.local_ray import RayStart, cpus_per_worker, start_ray
from trials.workers.worker_set import SetSettings, WorkerSet

WORKERS = 2
SHORT = TimingProtocol(warmup_steps=1, timed_steps=3)
ENDLESS = TimingProtocol(warmup_steps=0, timed_steps=10**7, time_limit_seconds=1e6)
TRIALS_A_CONNECTION = 2
"""Trials a connection, set so low that trials use one connection after another."""


def brisk() -> FakeClock:
    """A fake clock on which no trial of this file comes near its time limit."""
    return FakeClock(base_seconds=1e-6)


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[ClusterSpec]:
    """Ray on this machine, whose workers import the same source as this process."""
    with pytest.MonkeyPatch.context() as patch:
        source = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, source)))
        patch.delenv("RAY_ADDRESS", raising=False)
        start_ray(RayStart(workers=3 * WORKERS, dashboard=False))
        yield cluster_from_ray_nodes(ray.nodes(), WORKERS)
        ray.shutdown()


def on_ray(
    cluster: ClusterSpec,
    model: str = "mlp",
    clock: Clock | None = None,
    import_places: tuple[str, ...] = (),
    probe: bool = False,
    profile: DeviceProfile | None = None,
) -> RayBackend:
    return RayBackend(launched(cluster, model, clock, import_places, probe, profile))


def launched(
    cluster: ClusterSpec,
    model: str = "mlp",
    clock: Clock | None = None,
    import_places: tuple[str, ...] = (),
    probe: bool = False,
    profile: DeviceProfile | None = None,
) -> Launch:
    workers = SetSettings(
        cpus_per_worker(cluster),
        answer_seconds=3.0,
        import_places=import_places,
        exclusive=False,
        trials_a_connection=TRIALS_A_CONNECTION,
        profile=profile,
    )
    settings = RaySettings(workers, clock or brisk(), probe=probe, grace_seconds=4.0)
    return Launch(model, cluster, settings)


def in_this_process() -> LocalBackend:
    return LocalBackend(capture(build_task("mlp")).to_bytes(), local_cluster(WORKERS), brisk())


@pytest.fixture(scope="module", params=["local", "ray"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Back ends, one line for each implementation."""
    makers: dict[str, Callable[[], Backend]] = {
        "local": in_this_process,
        "ray": lambda: request.getfixturevalue("set_of_workers"),
    }
    return makers[request.param]()


@pytest.fixture(scope="module")
def set_of_workers(ray_cluster: ClusterSpec) -> Iterator[RayBackend]:
    """The back end on Ray that most tests share, including tests that end its workers, which must not matter."""
    made = on_ray(ray_cluster)
    yield made
    made.close()


def wanted(backend: Backend, baseline: str = "parameter_server", protocol: TimingProtocol = SHORT) -> TrialRequest:
    return TrialRequest(BASELINES[baseline](backend.model, backend.cluster), protocol, label=baseline)


def assert_it_still_works(backend: Backend) -> None:
    record = backend.run(wanted(backend))
    assert (record.outcome, record.reason) == ("ok", "")


class TestContract:
    """Tests of every implementation; `backend` is each of them in turn."""

    def test_one_request_gives_its_record(self, backend: Backend) -> None:
        request = wanted(backend)
        record = backend.run(request)
        assert (record.outcome, record.reason) == ("ok", "")
        assert (record.strategy, record.protocol, record.label) == (request.strategy, SHORT, "parameter_server")
        assert (record.model, record.cluster) == (backend.model, backend.cluster)
        assert len(record.step_seconds) == SHORT.timed_steps
        assert record.final_loss is not None
        assert record.versions["tensorflow"]

    @pytest.mark.quick("local")
    def test_several_requests_give_their_records_in_turn(self, backend: Backend) -> None:
        requests = [wanted(backend, name) for name in BASELINES]
        records = [backend.run(request) for request in requests]
        assert [record.outcome for record in records] == ["ok"] * len(BASELINES)
        assert [record.label for record in records] == list(BASELINES)
        assert [record.strategy for record in records] == [request.strategy for request in requests]

    def test_every_trial_starts_from_the_same_values(self, backend: Backend) -> None:
        losses = [backend.run(wanted(backend, name)).final_loss for name in ("byteps", "all_reduce_25mb", "byteps")]
        assert losses[0] == losses[2]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)

    def test_a_strategy_that_fails_is_a_record_and_the_next_trial_runs(self, backend: Backend) -> None:
        misfit = BASELINES["parameter_server"](backend.model, cases.local_cluster(WORKERS + 1))
        record = backend.run(TrialRequest(misfit, SHORT))
        assert record.outcome == "failed"
        assert record.reason.startswith("Replica 'node0/cpu:2' is not in the cluster.")
        assert_it_still_works(backend)

    def test_a_trial_over_its_time_limit_is_a_record_and_the_next_trial_runs(self, backend: Backend) -> None:
        record = backend.run(wanted(backend, protocol=TimingProtocol(0, 5, time_limit_seconds=1e-9)))
        assert record.outcome == "timed_out"
        assert record.reason == "The trial's 1e-09 s were over after 0 of 5 steps."
        assert_it_still_works(backend)

    def test_a_trial_slower_than_the_best_is_stopped(self, backend: Backend) -> None:
        request = TrialRequest(wanted(backend).strategy, TimingProtocol(0, 9), best_median_seconds=1e-12)
        record = backend.run(request)
        assert record.outcome == "stopped"
        assert len(record.step_seconds) == CLEAR_STEPS


def test_closing_a_local_backend_twice_is_fine_and_it_never_had_a_process() -> None:
    before = children()
    backend = in_this_process()
    assert_it_still_works(backend)
    assert children() == before
    backend.close()
    backend.close()


class TestRay:
    """Tests that need separate processes."""

    @pytest.mark.thorough
    def test_closing_in_mid_trial_ends_the_trial_and_every_process(self, ray_cluster: ClusterSpec) -> None:
        before = places_held()
        backend = on_ray(ray_cluster)
        pids = set(backend.pids().values())
        with ThreadPoolExecutor(1) as pool:
            record = pool.submit(backend.run, wanted(backend, protocol=ENDLESS))
            time.sleep(1.0)
            assert not record.done(), "The trial should still run."
            backend.close()
            with pytest.raises(TrialError, match=r"The process that supervises trials died"):
                record.result(timeout=60)
        assert left_of(pids) == set()
        assert places_held() == before

    @pytest.mark.thorough
    def test_after_closing_twice_no_process_is_left_and_no_place_is_held(self, ray_cluster: ClusterSpec) -> None:
        before = places_held()
        backend = on_ray(ray_cluster, clock=WallClock(), probe=True)
        assert {link.gbit_per_s.source for link in backend.cluster.links} == {"measured"}
        assert_it_still_works(backend)
        pids = set(backend.pids().values())
        assert len(pids) == WORKERS + 1
        assert all(map(is_alive, pids))
        backend.close()
        backend.close()
        assert left_of(pids) == set()
        assert places_held() == before

    @pytest.mark.parametrize(
        ("role", "told"),
        [
            pytest.param("worker-1", "Worker 1 on node0 has died. (", marks=pytest.mark.thorough),
            ("client", "The client process died during the trial."),
        ],
    )
    def test_a_process_killed_in_mid_trial_is_named_and_the_next_trial_runs_on_new_ones(
        self, set_of_workers: RayBackend, role: str, told: str
    ) -> None:
        assert set_of_workers.name.startswith("autosync-mlp-")  # for the dashboard
        record, pids = interrupted(set_of_workers, role, signal.SIGKILL, wanted(set_of_workers, protocol=ENDLESS))
        assert (record.outcome, record.reason[: len(told)]) == ("lost", told)
        assert record.total_seconds > 0
        assert_it_still_works(set_of_workers)
        assert left_of(pids) == set()
        assert not pids & set(set_of_workers.pids().values())

    @pytest.mark.thorough
    def test_a_worker_that_dies_while_all_are_started_costs_one_more_start(self, ray_cluster: ClusterSpec) -> None:
        before = places_held()
        launch = launched(ray_cluster)
        kill_once_it_lives(f"{launch.name}-1-worker-node0-1")
        backend = RayBackend(launch)
        try:
            assert backend.notes[-1].startswith("Worker 1 on node0 has died. (")
            assert backend.notes[-1].endswith("All processes were started once more.")
            assert_it_still_works(backend)
        finally:
            backend.close()
        assert places_held() == before

    @pytest.mark.thorough
    def test_workers_that_die_in_both_starts_are_an_error_that_names_them(self, ray_cluster: ClusterSpec) -> None:
        before = places_held()
        launch = launched(ray_cluster)
        for generation in (1, 2):
            kill_once_it_lives(f"{launch.name}-{generation}-worker-node0-1")
        with pytest.raises(ClusterError, match=r"^Worker 1 on node0 has died\. \("):
            RayBackend(launch)
        assert places_held() == before

    @pytest.mark.thorough
    def test_a_worker_that_dies_while_the_client_says_nothing_ends_the_trial_long_before_its_time_limit(
        self, set_of_workers: RayBackend
    ) -> None:
        client = set_of_workers.pids()["client"]
        stop_client = functools.partial(os.kill, client, signal.SIGSTOP)
        record, pids = interrupted(
            set_of_workers, "worker-1", signal.SIGKILL, wanted(set_of_workers, protocol=ENDLESS), stop_client
        )
        assert (record.outcome, record.reason) == ("lost", "Worker 1 on node0 has died. (The trial was under way.)")
        assert left_of(pids) == set()
        assert_it_still_works(set_of_workers)

    @pytest.mark.thorough  # the reason may name another process that died
    def test_a_worker_that_is_dead_when_the_client_connects_anew_is_named(self, set_of_workers: RayBackend) -> None:
        for trials in (0, TRIALS_A_CONNECTION):  # after the first loss a new set starts, which has run no trial
            for _ in range(trials):
                assert_it_still_works(set_of_workers)
            os.kill(set_of_workers.pids()["worker-1"], signal.SIGKILL)
            record = set_of_workers.run(wanted(set_of_workers))
            assert (record.outcome, record.reason.partition(". ")[0]) == ("lost", "Worker 1 on node0 has died")
        assert_it_still_works(set_of_workers)

    @pytest.mark.thorough
    def test_a_worker_killed_while_others_wait_in_a_collective_is_named_and_all_kinds_of_trials_run_next(
        self, set_of_workers: RayBackend
    ) -> None:
        endless = collective(set_of_workers, ENDLESS)
        record, pids = interrupted(set_of_workers, "worker-1", signal.SIGKILL, endless)
        assert (record.outcome, record.strategy) == ("lost", endless.strategy)
        assert record.reason.startswith("Worker 1 on node0 has died. (")
        for _ in range(3):  # over two connections
            ended = set_of_workers.run(collective(set_of_workers))
            assert (ended.outcome, ended.reason) == ("ok", "")
            assert_it_still_works(set_of_workers)
        assert left_of(pids) == set()
        assert not pids & set(set_of_workers.pids().values())

    @pytest.mark.thorough
    def test_a_worker_that_hangs_is_named_and_ended_and_the_next_trial_runs_on_new_ones(
        self, set_of_workers: RayBackend
    ) -> None:
        protocol = TimingProtocol(warmup_steps=0, timed_steps=10**7, time_limit_seconds=2.0)
        record, pids = interrupted(
            set_of_workers, "worker-1", signal.SIGSTOP, wanted(set_of_workers, protocol=protocol)
        )
        assert record.outcome == "lost"
        assert record.reason == (
            "Worker 1 on node0 does not answer. (The trial hung for 6 s, and its processes were ended.)"
        )
        assert left_of(pids) == set()
        assert_it_still_works(set_of_workers)

    @pytest.mark.thorough  # like the function that raises
    def test_an_unknown_model_is_an_error_with_the_names_there_are(self, ray_cluster: ClusterSpec) -> None:
        before = places_held()
        with pytest.raises(ModelError, match=r"No model is called 'nosuch'. Known: bert, bert-base,"):
            on_ray(ray_cluster, "nosuch")
        assert places_held() == before

    def test_workers_that_find_no_place_are_an_error_that_says_what_is_free(self, ray_cluster: ClusterSpec) -> None:
        before = places_held()
        workers = SetSettings(cpus_per_worker=1000.0, place_timeout_seconds=1.0, exclusive=False)
        with pytest.raises(ClusterError, match=r"2 workers of 1000 CPUs each must be placed, but the cluster has "):
            RayBackend(Launch("mlp", ray_cluster, RaySettings(workers)))
        assert places_held() == before

    def test_a_set_has_its_nodes_for_itself(self, ray_cluster: ClusterSpec) -> None:
        before = places_held()
        alone = SetSettings(cpus_per_worker(ray_cluster) / 2, place_timeout_seconds=1.0)
        first = WorkerSet(ray_cluster, alone, "first")
        try:
            with pytest.raises(ClusterError, match=r"A trial needs its nodes for itself, but .* are held or gone; end"):
                WorkerSet(ray_cluster, alone, "second")
        finally:
            first.close()
        assert places_held() == before

    @pytest.mark.thorough
    def test_a_model_function_that_raises_is_an_error_in_its_own_words(
        self, ray_cluster: ClusterSpec, tmp_path: Path
    ) -> None:
        (tmp_path / "raising_on_ray.py").write_text("def make():\n    raise RuntimeError('no data today')\n")
        with pytest.raises(ModelError, match=r"'raising_on_ray:make'.* failed: RuntimeError: no data today"):
            on_ray(ray_cluster, "raising_on_ray:make", import_places=(str(tmp_path),))

    @pytest.mark.thorough  # commands that capture in a subprocess get the same message
    def test_a_model_function_that_does_not_end_is_an_error_once_its_time_is_over(
        self, ray_cluster: ClusterSpec, tmp_path: Path
    ) -> None:
        before = places_held()
        (tmp_path / "endless_on_ray.py").write_text("import time\n\ndef make():\n    time.sleep(1e6)\n")
        workers = SetSettings(
            cpus_per_worker(ray_cluster), import_places=(str(tmp_path),), exclusive=False, capture_seconds=1.0
        )
        with pytest.raises(
            ModelError, match=r"'endless_on_ray:make' must take no longer than 1 s, but was not finished"
        ):
            RayBackend(Launch("endless_on_ray:make", ray_cluster, RaySettings(workers)))
        assert places_held() == before


def collective(backend: Backend, protocol: TimingProtocol = SHORT) -> TrialRequest:
    """All variables in one bucket, all-reduced by TensorFlow's collective."""
    replicas = tuple(map(str, backend.cluster.replica_devices))
    shards = (AllReduce(0, "collective"),)
    variables = tuple(VariableStrategy(variable.name, shards) for variable in backend.model.variables)
    return TrialRequest(Strategy(replicas, variables), protocol, label="collective")


@pytest.mark.thorough
@pytest.mark.parametrize("searcher", ["evolution", "guided"])
def test_a_search_is_the_same_on_every_backend_with_a_made_up_clock(searcher: str, set_of_workers: RayBackend) -> None:
    """Strategies, step times to the last bit and losses depend neither on the back end nor on earlier trials."""
    local = in_this_process()
    theirs = set_of_workers.model.digest, set_of_workers.cluster.digest
    assert (local.model.digest, local.cluster.digest) == theirs  # each back end has profiled its own step
    here, there = (searched(searcher, backend) for backend in (local, set_of_workers))
    ours, theirs = (
        [(record.label, record.strategy.digest, record.step_seconds) for record in part] for part in (here, there)
    )
    assert ours == theirs
    assert [record.outcome for record in here] == ["ok"] * len(here)
    assert [record.final_loss for record in here] == pytest.approx([record.final_loss for record in there], rel=1e-4)
    assert len({(record.strategy.digest, record.purpose) for record in here}) == len(here)


def searched(searcher: str, backend: Backend) -> list[RuntimeRecord]:
    """Ten trials of a search that starts from three baselines."""
    space = SPACE.bind(backend.model, backend.cluster)
    names = ("parameter_server", "all_reduce_25mb", "byteps")
    baselines = [(name, BASELINES[name](backend.model, backend.cluster)) for name in names]

    def evaluate(proposal: Proposal) -> RuntimeRecord:
        return backend.run(TrialRequest(proposal.strategy, SHORT, purpose=proposal.purpose, label=proposal.label))

    return run_search(
        make_searcher(searcher, SearcherArguments(space, baselines, 1, rough_simulator)), evaluate, trials=10
    )

"""Sessions of the PyTorch engine on workers: trials, real and paced, and their faults."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from autosync.baselines import BASELINES
from autosync.engine.core.registry import engine_named
from autosync.engine.pytorch.capture import CapturedModule, capture, profile
from autosync.engine.pytorch.client import PyTorchClient
from autosync.engine.pytorch.frames import receive_frame, send_frame
from autosync.engine.pytorch.local_transport import local_group
from autosync.engine.pytorch.rank import Rank
from autosync.engine.pytorch.session import PyTorchSession
from autosync.engine.pytorch.task import build_task as build_own_task
from autosync.engine.pytorch.workers import PyTorchWorker
from autosync.errors import ClusterError, ModelError, SpecError
from autosync.spec import ClusterSpec, Pace, Strategy, TimingProtocol
from autosync.zoo import build_task
from tests.cases import gpu_cluster, local_cluster, star_cluster
from tests.engine.pytorch.model_functions import LOOKED_UP
from tests.engine.pytorch.ranks import on_all_ranks
from trials.clock import Environment, WallClock
from trials.trial import TrialRequest, TrialSetup, run_trial

ENGINE = engine_named("pytorch")
WORKERS = 3


@pytest.fixture(scope="module")
def captured() -> CapturedModule:
    ENGINE.use_logical_devices(WORKERS)
    return profile(capture(build_task("mlp", framework="pytorch")))


def paced(cluster: ClusterSpec, numbers: str) -> ClusterSpec:
    nodes = tuple(replace(node, pace=Pace(0.0, 0.05, numbers)) for node in cluster.nodes)
    return replace(cluster, nodes=nodes)


class Processes:
    """Workers, here in threads that listen on the loopback address, and their client."""

    def __init__(self, count: int = WORKERS) -> None:
        self.token = secrets.token_hex(8)
        self.workers = [PyTorchWorker("127.0.0.1", 1.0, self.token) for _ in range(count)]
        self.client = PyTorchClient(self.token)
        self.client.connect([worker.address for worker in self.workers], "127.0.0.1")


@pytest.fixture
def session_on(captured: CapturedModule) -> Any:
    def make(cluster: ClusterSpec) -> PyTorchSession:
        return Processes(len(cluster.replica_devices)).client.session(captured, cluster, None)

    return make


def baseline(captured: CapturedModule, cluster: ClusterSpec, name: str = "byteps") -> Strategy:
    return BASELINES[name](captured.spec, cluster)


def test_steps_train_and_begin_again_from_the_same_values(session_on: Any, captured: CapturedModule) -> None:
    cluster = local_cluster(WORKERS)
    session, losses = session_on(cluster), []
    for name in ("byteps", "all_reduce_25mb", "byteps"):
        step = session.realize(baseline(captured, cluster, name))
        losses.append([step() for _ in range(4)])
        values = [step.values(replica) for replica in range(WORKERS)]
        assert all(np.array_equal(values[0][key], other[key]) for other in values for key in values[0])
        step.close()
    assert losses[0][-1] < losses[0][0]
    assert losses[0] == losses[2]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_replicas_look_up_rows_of_their_own_in_a_few_batches_by_turns() -> None:
    ENGINE.use_logical_devices(WORKERS)
    module, cluster = capture(build_own_task(LOOKED_UP)), local_cluster(WORKERS)
    rows = [(module.task.training_batch(number)[0] - 1).flatten().tolist() for number in range(4 * WORKERS)]
    session = Processes().client.session(module, cluster, None)
    for name in ("partitioned_parameter_server", "all_reduce_25mb"):
        step = session.realize(baseline(module, cluster, name))
        before = step.values(0)["0.weight"]
        for number in range(5):
            step()
            changed = np.flatnonzero((step.values(0)["0.weight"] != before).any(1))
            assert set(changed) == set().union(*rows[: min(number + 1, 4) * WORKERS])
        step.close()


@pytest.mark.parametrize("numbers", ["recorded", "held"])
def test_paced_replicas_look_up_rows_of_their_own(numbers: str) -> None:
    module, cluster = profile(capture(build_own_task(LOOKED_UP))), paced(star_cluster(nodes=2, workers=1), numbers)
    rows = [(module.task.training_batch(number)[0] - 1).flatten().tolist() for number in range(4)]
    step = Processes(2).client.session(module, cluster, None).realize(baseline(module, cluster))
    before = step.values(1)["0.weight"]
    for number in range(2):
        step()
        changed = np.flatnonzero((step.values(1)["0.weight"] != before).any(1))
        assert set(changed) == set().union(*rows[: 2 * (number + 1)])
    step.close()


def broken() -> Any:
    """A table, on data whose tenth example cannot be read."""

    class Broken(Dataset[Any]):
        def __len__(self) -> int:
            return 20

        def __getitem__(self, example: int) -> Any:
            if example == 9:
                raise OSError("no such shard")
            return torch.tensor([example]), torch.zeros(2)

    module = nn.Sequential(nn.Embedding(20, 2, sparse=True), nn.Flatten())
    return module, nn.functional.mse_loss, DataLoader(Broken(), 1), torch.optim.SGD(module.parameters(), 0.1)


def test_a_batch_that_cannot_be_read_is_named_before_a_step() -> None:
    module, cluster = capture(build_own_task(f"{__name__}:broken")), local_cluster(WORKERS)
    session = Processes().client.session(module, cluster, None)
    with pytest.raises(ModelError, match=r"Batch 9 of the data of '.*:broken' could not be read: OSError: no such sha"):
        session.realize(baseline(module, cluster))


@pytest.mark.parametrize("numbers", ["recorded", "held"])
def test_paced_passes_take_their_time(session_on: Any, captured: CapturedModule, numbers: str) -> None:
    cluster = paced(star_cluster(nodes=2, workers=1), numbers)
    record = run_trial(
        session_on(cluster),
        TrialRequest(baseline(captured, cluster), TimingProtocol(1, 6)),
        TrialSetup(captured.spec, cluster, WallClock(), Environment.here(ENGINE)),
    )
    assert record.pace is not None
    assert record.reason == (record.pace.fault or "")  # on a busy machine, releases are late
    assert record.framework == "pytorch"
    assert record.kind == f"pytorch-paced-{numbers}"
    assert min(record.step_seconds) >= 0.05
    assert record.pace.recorded_steps == (2 if numbers == "recorded" else 0)
    assert record.pace.requested_seconds == (0.05, 0.05)


def overlapped(strategy: Strategy) -> Strategy:
    return replace(strategy, overlap_next_forward=True)


@pytest.mark.parametrize("name", ["byteps", "all_reduce_25mb"])
def test_steps_without_a_barrier_train_to_the_same_bits(session_on: Any, captured: CapturedModule, name: str) -> None:
    cluster = local_cluster(WORKERS)
    strategy, ends = baseline(captured, cluster, name), []
    for session in (session_on(cluster), ENGINE.local_session(captured, cluster)):
        for wanted in (strategy, overlapped(strategy)):
            step = session.realize(wanted)
            losses = [step() for _ in range(3)]
            state = step.state()
            losses += [step() for _ in range(2)]
            step.load(state)
            losses += [step() for _ in range(2)]
            assert losses[5:] == losses[3:5]
            ends.append((losses, {key: value.tobytes() for key, value in step.values(1).items()}))
            step.close()
    assert ends[1] == ends[0]
    assert ends[3] == ends[2]


@pytest.mark.parametrize("numbers", ["recorded", "held"])
def test_paced_passes_without_a_barrier_take_their_time(
    session_on: Any, captured: CapturedModule, numbers: str
) -> None:
    cluster = paced(star_cluster(nodes=2, workers=1), numbers)
    session, stage = session_on(cluster), TrialSetup(captured.spec, cluster, WallClock(), Environment.here(ENGINE))
    protocol = TimingProtocol(1, 6, stop_factor=1.1)
    strategy = overlapped(baseline(captured, cluster))
    record = run_trial(session, TrialRequest(strategy, protocol), stage)
    assert record.pace is not None
    assert record.reason == (record.pace.fault or "")  # on a busy machine, releases are late
    assert len(record.step_seconds) == 6
    assert sum(record.step_seconds) >= 5.9 * 0.05
    stopped = run_trial(session, TrialRequest(strategy, protocol, best_median_seconds=0.01), stage)
    assert stopped.outcome in ("stopped", "failed")  # while the ranks are a step ahead
    assert len(run_trial(session, TrialRequest(strategy, protocol), stage).step_seconds) == 6


UPDATE_SECONDS = 0.03


class SlowSGD(torch.optim.SGD):
    """Its step takes `UPDATE_SECONDS` if the optimizer has gradients, and passes a closure of None on."""

    def step(self, closure: Any = None) -> Any:
        if any(parameter.grad is not None for group in self.param_groups for parameter in group["params"]):
            time.sleep(UPDATE_SECONDS)
        return super().step(closure)


def slow_to_update() -> Any:
    module = nn.Linear(4, 2)
    torch.optim.SGD(module.parameters())  # from now on, steps of the base class call hooks, too
    batch = torch.randn(8, 4), torch.randn(8, 2)
    return module, nn.functional.mse_loss, batch, SlowSGD(module.parameters(), 0.1)


@pytest.mark.parametrize("numbers", ["recorded", "held"])
def test_the_update_of_a_late_value_makes_a_paced_pass_longer(numbers: str) -> None:
    module = profile(capture(build_own_task(f"{__name__}:slow_to_update")))
    cluster, group = paced(star_cluster(nodes=2, workers=1), numbers), local_group(2)
    turns = [threading.Event() for _ in range(4)]

    def act(number: int) -> list[float]:
        rank, seconds = Rank(module, cluster, group[number]), list[float]()
        rank.record()
        rank.realize(overlapped(baseline(module, cluster)))
        for turn in (number, 2 + number):
            assert not turn or turns[turn - 1].wait(30)
            begin = time.perf_counter()
            rank.step(0.05, numbers == "held")
            seconds.append(time.perf_counter() - begin)
            turns[turn].set()
        return seconds

    # Each step of rank 0 ends before rank 1 begins the same step, so all updates of rank 0 are left to its next pass.
    assert on_all_ranks(2, act)[0][1] >= 0.05 + UPDATE_SECONDS


def test_announced_steps_are_all_that_ranks_take(session_on: Any, captured: CapturedModule) -> None:
    cluster = local_cluster(WORKERS)
    session, strategy = session_on(cluster), overlapped(baseline(captured, cluster))
    ends = []
    for expected in (0, 4):
        step = session.realize(strategy)
        step.expect_steps(expected)
        losses = [step() for _ in range(4)]
        ends.append((losses, {key: value.tobytes() for key, value in step.values().items()}))
        step.close()
    assert ends[0] == ends[1]


def test_a_refused_strategy_is_a_failed_trial_and_the_next_one_runs(session_on: Any, captured: CapturedModule) -> None:
    cluster = local_cluster(WORKERS)
    session, stage = session_on(cluster), TrialSetup(captured.spec, cluster, WallClock())
    good = baseline(captured, cluster)
    fewer = replace(good, replicas=good.replicas[:2])
    record = run_trial(session, TrialRequest(fewer, TimingProtocol(0, 2)), stage)
    assert record.outcome == "failed"
    assert "it has 2 replicas on a cluster of 3" in record.reason
    assert run_trial(session, TrialRequest(good, TimingProtocol(0, 2)), stage).outcome == "ok"


def test_the_ranks_join_again_after_a_connection_is_lost(captured: CapturedModule) -> None:
    cluster, processes = local_cluster(WORKERS), Processes()
    session, stage = processes.client.session(captured, cluster, None), TrialSetup(captured.spec, cluster, WallClock())
    request = TrialRequest(baseline(captured, cluster), TimingProtocol(0, 2))
    assert run_trial(session, request, stage).outcome == "ok"
    transport = processes.workers[1]._transport
    assert transport is not None
    transport.close()
    failed = run_trial(session, request, stage)
    assert failed.outcome == "failed"
    assert "closed the connection" in failed.reason or "no longer" in failed.reason
    assert run_trial(session, request, stage).outcome == "ok"


@pytest.fixture
def processes() -> Processes:
    return Processes(2)


def test_a_worker_answers_holders_of_the_token_only() -> None:
    worker = PyTorchWorker("127.0.0.1", 1.0, "right")
    for token in ("wrong", None, 3):
        host, port = worker.address.split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            send_frame(connection, {"token": token})
            send_frame(connection, {"do": "end"})
            with pytest.raises(ConnectionError):
                receive_frame(connection)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"\xff" * 16)  # sizes that no memory holds
        with pytest.raises(ConnectionError):
            receive_frame(connection)
    client = PyTorchClient("right")
    client.connect([worker.address], "127.0.0.1")
    assert client.ask_all([{"do": "end"}]) == [({}, b"")]


def test_errors_of_workers_keep_their_kind(processes: Processes) -> None:
    with pytest.raises(SpecError, match="This worker has loaded no model yet"):
        processes.client.ask_all([{"do": "record"}] * 2)
    with pytest.raises(RuntimeError, match="AttributeError"):
        processes.client.ask_all([{"do": "nonsense"}] * 2)


def test_a_lost_worker_is_a_sentence(processes: Processes) -> None:
    processes.client._connections[1].close()
    with pytest.raises(ClusterError, match="A worker does not answer any more"):
        processes.client.ask_all([{"do": "end"}] * 2)
    with pytest.raises(ClusterError, match=r"The worker at 127\.0\.0\.1:9 cannot be reached"):
        PyTorchClient("x").connect(["127.0.0.1:9"], "127.0.0.1")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"No worker can listen at 192\.0\.2\.1"):
        PyTorchWorker("192.0.2.1", 1.0, "token")


def test_gpus_are_refused(processes: Processes, captured: CapturedModule) -> None:
    with pytest.raises(ClusterError, match="runs on CPUs only"):
        processes.client.session(captured, gpu_cluster(), None)


def test_probes_measure_the_ranks_own_connections(processes: Processes) -> None:
    cluster = star_cluster(nodes=2, workers=1)
    first, second = map(str, cluster.server_devices)
    transport = processes.client.transport(cluster)
    small, large = (transport.flows([(first, second), (second, first)])([size, size]) for size in (1 << 10, 1 << 24))
    assert 0 < small < large
    assert transport.hops(first, second, 0)() < transport.hops(first, second, 50)()
    assert transport.hops(second, first, 3)() > 0
    assert transport.messages(first, second, 20)() > 0
    assert transport.copies(second, 1 << 24, 3)() > transport.copies(second, 1 << 10, 1)()

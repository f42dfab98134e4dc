"""Faults of a PyTorch module's trials on real workers: each is a record with its reason, and the next trial runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from autosync.baselines import baselines_for
from autosync.spec import RuntimeRecord, TimingProtocol
from tests.contracts.processes import interrupted, left_of
from trials.cluster.discovery import cluster_from_ray_nodes
from trials.fleet.on_ray import Launch, RayBackend, RaySettings
from trials.trial import TrialRequest
from trials.workers.local_ray import RayStart, cpus_per_worker, start_ray
from trials.workers.worker_set import SetSettings

pytestmark = pytest.mark.thorough

LIMIT_SECONDS, GRACE_SECONDS = 4.0, 4.0
SHORT = TimingProtocol(warmup_steps=1, timed_steps=3)
ENDLESS = TimingProtocol(warmup_steps=0, timed_steps=10**7, time_limit_seconds=LIMIT_SECONDS)
HUNG = f"The trial hung for {LIMIT_SECONDS + GRACE_SECONDS:g} s, and its processes were ended."

MODEL = """
import time
from pathlib import Path

import torch
from torch import nn

FAULT = Path(__file__).with_name("fault")


class Faulty(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 3)

    def forward(self, batch):
        fault = FAULT.read_text() if FAULT.exists() else ""
        if fault == "hang":
            time.sleep(3600)
        return self.layer(batch) * (float("nan") if fault == "nan" else 1.0)


def build():
    module = Faulty()
    batch = torch.randn(16, 64), torch.randint(3, (16,))
    return module, nn.functional.cross_entropy, batch, torch.optim.SGD(module.parameters(), lr=0.1)
"""

STRATEGIES = ("parameter_server", "ddp")
"""One over the ranks' own connections, and one over PyTorch's process group."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model function, where a file `fault` names the fault of the next steps."""
    made = tmp_path_factory.mktemp("faulty")
    (made / "faulty.py").write_text(MODEL)
    return made


@pytest.fixture(scope="module")
def backend(folder: Path) -> Iterator[RayBackend]:
    """The back end that all tests share; it starts new workers after a fault."""
    with pytest.MonkeyPatch.context() as patch:
        source = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, source)))
        patch.delenv("RAY_ADDRESS", raising=False)
        start_ray(RayStart(workers=2, dashboard=False))
        cluster = cluster_from_ray_nodes(ray.nodes(), 2)
        workers = SetSettings(
            cpus_per_worker(cluster),
            answer_seconds=3.0,
            import_places=(str(folder),),
            exclusive=False,
            engine="pytorch",
        )
        settings = RaySettings(workers, probe=False, grace_seconds=GRACE_SECONDS)
        made = RayBackend(Launch("faulty:build", cluster, settings))
        yield made
        made.close()
        ray.shutdown()


def request(backend: RayBackend, label: str, protocol: TimingProtocol = SHORT) -> TrialRequest:
    return TrialRequest(baselines_for("pytorch")[label](backend.model, backend.cluster), protocol, label=label)


def run_with(fault: str, folder: Path, backend: RayBackend, label: str, protocol: TimingProtocol) -> RuntimeRecord:
    """The record of a trial whose every forward pass has the fault."""
    file = folder / "fault"
    file.write_text(fault)
    try:
        return backend.run(request(backend, label, protocol))
    finally:
        file.unlink()


def check_next_trials(backend: RayBackend) -> None:
    for label in STRATEGIES:
        record = backend.run(request(backend, label))
        assert (record.outcome, record.reason) == ("ok", "")


@pytest.mark.parametrize("label", STRATEGIES)
@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGKILL, "Worker 1 on node0 has died. ("), (signal.SIGSTOP, "Worker 1 on node0 does not answer. (")],
)
def test_a_rank_that_is_killed_or_stopped_is_named(
    backend: RayBackend, label: str, number: signal.Signals, reason: str
) -> None:
    record, pids = interrupted(backend, "worker-1", number, request(backend, label, ENDLESS))
    assert (record.outcome, record.reason[: len(reason)]) == ("lost", reason)
    assert record.total_seconds < LIMIT_SECONDS + GRACE_SECONDS + 20
    check_next_trials(backend)
    assert left_of(pids) == set()


@pytest.mark.parametrize("label", STRATEGIES)
def test_a_loss_that_is_not_finite_fails_the_trial_and_the_workers_go_on(
    backend: RayBackend, folder: Path, label: str
) -> None:
    pids = backend.pids()
    record = run_with("nan", folder, backend, label, SHORT)
    assert (record.outcome, record.reason) == (
        "failed",
        "The loss is nan at step 0; a trial must keep its loss finite.",
    )
    check_next_trials(backend)
    assert backend.pids() == pids


@pytest.mark.parametrize("label", STRATEGIES)
def test_a_module_that_hangs_is_ended_at_the_time_limit(backend: RayBackend, folder: Path, label: str) -> None:
    pids = set(backend.pids().values())
    record = run_with("hang", folder, backend, label, ENDLESS)
    assert (record.outcome, record.reason) == ("timed_out", HUNG)
    check_next_trials(backend)
    assert left_of(pids) == set()

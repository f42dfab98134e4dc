"""Replicas under DistributedDataParallel itself train like one process, with the settings of the strategy."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load

from autosync.baselines.ddp import DDP_BASELINES, in_bf16, under_ddp
from autosync.engine.core.registry import engine_named
from autosync.engine.pytorch.capture import CapturedModule, capture, profile
from autosync.engine.pytorch.session import PyTorchSession, PyTorchStep
from autosync.engine.pytorch.task import ModuleTask, build_task
from autosync.engine.pytorch.transport import TransportError
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, DDPSettings, Strategy, TimingProtocol
from tests.cases import local_cluster
from tests.engine.pytorch.test_session import Processes, paced
from trials.clock import WallClock
from trials.trial import TrialRequest, TrialSetup, run_trial

ENGINE = engine_named("pytorch")
RANKS, STEPS = 2, 5
CLUSTER = local_cluster(RANKS)
MODEL = f"{__name__}:build_module"

SMALL = (
    DDPSettings((0.02,)),
    DDPSettings((0.005, 0.03), gradient_as_bucket_view=True),
    DDPSettings((0.02,), gradient_as_bucket_view=True, static_graph=True),
    DDPSettings((0.02,), True, zero_redundancy_optimizer=True, parameters_as_bucket_view=True),
)
"""Settings with several buckets for the small module."""


class Tagger(torch.nn.Module):
    """A sparse table, a tied matrix, batch normalization and a layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Embedding(40, 8, sparse=True)
        self.tied = torch.nn.Linear(8, 60, bias=False)
        self.norm = torch.nn.BatchNorm1d(60)
        self.twice = torch.nn.Linear(60, 60)
        self.frozen = torch.nn.Parameter(torch.ones(60), requires_grad=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.tied(self.rows(words).mean(1)))
        return torch.relu(self.twice(torch.relu(self.twice(hidden)))) * self.frozen @ self.tied.weight


def build_module() -> tuple[object, ...]:
    module = Tagger().double()
    batch = torch.randint(40, (12, 3)), torch.randint(8, (12,))
    return module, torch.nn.functional.cross_entropy, batch, torch.optim.SGD(module.parameters(), lr=0.1)


@pytest.fixture(scope="module")
def captured() -> CapturedModule:
    ENGINE.use_logical_devices(RANKS)
    return profile(capture(build_task(MODEL)))


@pytest.fixture(scope="module")
def processes() -> Processes:
    return Processes(RANKS)


@pytest.fixture
def session(processes: Processes, captured: CapturedModule) -> PyTorchSession:
    return processes.client.session(captured, CLUSTER, None)


def strategies(captured: CapturedModule) -> dict[str, Strategy]:
    """The baselines, and the settings with several buckets."""
    named = {name: baseline(captured.spec, CLUSTER) for name, baseline in DDP_BASELINES.items()}
    return named | {settings.in_words: under_ddp(captured.spec, CLUSTER, settings) for settings in SMALL}


def trained_alone(task: ModuleTask, batches: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    """Parameters after a step on the mean gradient of each group of `batches`."""
    for numbers in batches:
        task.optimizer.zero_grad()
        for number in numbers:
            (task.loss_on(task.batch_of(number)) / len(numbers)).backward()
        task.optimizer.step()
    return {name: parameter.detach() for name, parameter in task.parameters.items()}


def test_replicas_train_like_one_process_under_all_settings(session: PyTorchSession, captured: CapturedModule) -> None:
    batches = [[rank + RANKS * step for rank in range(RANKS)] for step in range(STEPS)]
    expected = trained_alone(captured.task.fresh(), batches)
    for name, strategy in strategies(captured).items():
        step = session.realize(strategy)
        losses = [step() for _ in range(STEPS)]
        assert losses[-1] < losses[0]
        for replica in range(RANKS):
            values = step.values(replica)
            for variable, tensor in expected.items():
                torch.testing.assert_close(torch.from_numpy(values[variable]), tensor, rtol=0, atol=1e-12, msg=name)
        step.close()


@pytest.mark.parametrize("numbers", ["recorded", "held"])
def test_paced_passes_take_their_time_under_all_settings(
    processes: Processes, captured: CapturedModule, numbers: str
) -> None:
    cluster = paced(CLUSTER, numbers)
    session = processes.client.session(captured, cluster, None)
    for strategy in strategies(captured).values():
        step = session.realize(strategy)
        for _ in range(STEPS):
            began = time.perf_counter()
            assert step() > 0
            assert time.perf_counter() - began >= 0.05
        assert isinstance(step, PyTorchStep)
        assert {tuple(taken.seconds) for taken in step.taken} == {(0.05,) * RANKS}
        assert all((taken.late >= 0).all() for taken in step.taken)
        step.close()


def test_held_gradients_train_like_one_process(processes: Processes, captured: CapturedModule) -> None:
    cluster = paced(CLUSTER, "held")
    step = processes.client.session(captured, cluster, None).realize(under_ddp(captured.spec, cluster, SMALL[0]))
    for _ in range(STEPS):
        step()
    batches = [[rank + RANKS * number for rank in range(RANKS)] for number in range(STEPS)]
    for variable, tensor in trained_alone(captured.task.fresh(), batches).items():
        torch.testing.assert_close(torch.from_numpy(step.values()[variable]), tensor, rtol=0, atol=1e-12)
    step.close()


def trained_in_bf16(task: ModuleTask, chosen: set[str], begin: int) -> dict[str, torch.Tensor]:
    """Parameters after `STEPS` steps. From step `begin` on, gradients of `chosen` variables are rounded to bfloat16,
    halved and added."""
    for step in range(STEPS):
        gradients = []
        for rank in range(RANKS):
            task.optimizer.zero_grad()
            task.loss_on(task.batch_of(rank + RANKS * step)).backward()
            gradients.append({name: value.grad for name, value in task.parameters.items()})
        for name, value in task.parameters.items():
            first, second = (gradient[name] for gradient in gradients)
            assert first is not None
            assert second is not None
            mean = (first + second) / RANKS
            if name in chosen and step >= begin:
                mean = (first.bfloat16() / RANKS + second.bfloat16() / RANKS).double()
            value.grad = mean
        task.optimizer.step()
    return {name: parameter.detach() for name, parameter in task.parameters.items()}


@pytest.mark.parametrize("is_mixed", [False, True], ids=["all", "some"])
def test_chosen_buckets_travel_in_bf16_and_all_others_in_full(
    session: PyTorchSession, captured: CapturedModule, is_mixed: bool
) -> None:
    exact = DDP_BASELINES["ddp_per_parameter" if is_mixed else "ddp"](captured.spec, CLUSTER)
    lossy = in_bf16(exact, captured.spec)
    full = {"rows.weight", *({"twice.weight", "tied.weight"} if is_mixed else ())}
    variables = tuple((exact if name in full else lossy).by_name[name] for name in exact.by_name)
    step = session.realize(replace(lossy, variables=variables))
    for _ in range(STEPS):
        step()
    values = step.values(1)
    begin = int(is_mixed)  # the first step has one bucket of all dense gradients, which holds others than the chosen
    for name, tensor in trained_in_bf16(captured.task.fresh(), {*exact.by_name} - full, begin).items():
        torch.testing.assert_close(torch.from_numpy(values[name]), tensor, rtol=0, atol=1e-12)
    step.close()


def build_adam() -> tuple[object, ...]:
    """Two parameter groups, one with a schedule's settings."""
    module = torch.nn.Sequential(torch.nn.Linear(6, 20), torch.nn.Tanh(), torch.nn.Linear(20, 3)).double()
    groups = [{"params": [*module[0].parameters()], "lr": 0.02}, {"params": [*module[2].parameters()]}]
    batch = torch.randn(8, 6).double(), torch.randn(8, 3).double()
    return module, torch.nn.functional.mse_loss, batch, torch.optim.AdamW(groups, lr=0.05, weight_decay=0.1)


def zero_on(task: ModuleTask) -> tuple[PyTorchSession, Strategy, Strategy]:
    """A session on the task, DDP's default strategy, and the strategy with ZeroRedundancyOptimizer."""
    captured = profile(capture(task))
    plain, zero = (DDP_BASELINES[name](captured.spec, CLUSTER) for name in ("ddp", "ddp_zero_views"))
    return Processes(RANKS).client.session(captured, CLUSTER, None), plain, zero


def test_ranks_keep_a_share_of_the_optimizers_state_which_moves_between_strategies() -> None:
    session, plain, zero = zero_on(build_task(f"{__name__}:build_adam"))
    step = session.realize(plain)
    for _ in range(4):
        step()
    expected = step.state()
    step.close()

    step = session.realize(zero)
    for _ in range(2):
        step()
    middle = step.state()
    shares = slots_of_ranks(session)
    assert all(shares)
    assert not set.intersection(*shares)
    step.close()

    for strategy in (zero, plain):  # both resume from it, to the numbers of four steps in one run
        step = session.realize(strategy)
        step.load(middle)
        assert sorted(step.state().slots) == sorted(expected.slots)
        for _ in range(2):
            step()
        for name, array in expected.values.items():
            np.testing.assert_allclose(step.state().values[name], array, rtol=0, atol=1e-12)
        for name, arrays in expected.slots.items():
            np.testing.assert_allclose(step.state().slots[name][0], arrays[0], rtol=0, atol=1e-12)
        step.close()


def slots_of_ranks(session: PyTorchSession) -> list[set[str]]:
    """The names of the optimizer's tensors that each rank contributes to the state."""
    answers = session._ranks._ask({"do": "state"})  # type: ignore[attr-defined]
    return [{name for name in load(data) if name.startswith("slot/")} for _, data in answers]


class Tuned(torch.optim.SGD):
    """An optimizer that cannot be made from parameters and settings."""

    def __init__(self, parameters: object, scale: float) -> None:
        super().__init__(parameters, lr=0.1 * scale)  # type: ignore[arg-type]


def build_tuned() -> tuple[object, ...]:
    module, loss, batch, _ = build_adam()
    assert isinstance(module, torch.nn.Module)
    return module, loss, batch, Tuned(module.parameters(), 0.5)


def test_an_optimizer_that_zero_cannot_wrap_is_refused() -> None:
    session, plain, zero = zero_on(build_task(f"{__name__}:build_tuned"))
    with pytest.raises(SpecError, match=r"ZeroRedundancyOptimizer cannot wrap the optimizer Tuned \(.*'scale'"):
        session.realize(zero)
    assert session.realize(plain)() > 0


def test_a_trial_whose_buckets_or_settings_are_not_ddps_fails(
    session: PyTorchSession, captured: CapturedModule
) -> None:
    """A strategy file may state other buckets than DDP makes of its settings."""
    good, other = (under_ddp(captured.spec, CLUSTER, settings) for settings in (SMALL[0], DDPSettings()))
    setup = TrialSetup(captured.spec, CLUSTER, WallClock())
    record = run_trial(session, TrialRequest(replace(good, ddp=DDPSettings()), TimingProtocol(3, 3)), setup)
    assert record.outcome == "failed"
    assert "DistributedDataParallel runs with buckets" in record.reason
    record = run_trial(session, TrialRequest(replace(other, ddp=SMALL[0]), TimingProtocol(3, 3)), setup)
    assert record.outcome == "failed"
    assert run_trial(session, TrialRequest(good, TimingProtocol(3, 3)), setup).outcome == "ok"


def test_a_lost_rank_is_a_failed_trial_and_the_next_one_runs(captured: CapturedModule) -> None:
    processes = Processes(RANKS)
    session = processes.client.session(captured, CLUSTER, None)
    step = session.realize(under_ddp(captured.spec, CLUSTER, SMALL[0]))
    step()
    worker = processes.workers[1]
    assert worker._rank is not None
    assert worker._transport is not None
    assert worker._transport.collectives is not None
    worker._rank.end()
    worker._transport.collectives.close()
    gc.collect()  # nothing holds the connections any more, as after the end of a process
    with pytest.raises((SpecError, TransportError)):
        step()
    assert session.realize(under_ddp(captured.spec, CLUSTER, SMALL[1]))() > 0


def test_threads_of_a_process_are_refused(captured: CapturedModule) -> None:
    cluster: ClusterSpec = CLUSTER
    with pytest.raises(SpecError, match="DistributedDataParallel needs a process for each replica"):
        ENGINE.local_session(captured, cluster).realize(under_ddp(captured.spec, cluster, SMALL[0]))

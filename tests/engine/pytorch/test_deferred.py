"""Updates that wait for late gradients leave the numbers of any training loop as they are, to the bit."""

from __future__ import annotations

import copy
import random
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from autosync.baselines import BASELINES
from autosync.engine.pytorch.deferred import LateGradient
from autosync.engine.pytorch.late import LateParameter
from autosync.engine.pytorch.optimizer import is_separable
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.engine.pytorch.transport import TransportError
from autosync.errors import SpecError
from autosync.spec import Cast, PowerSGD, Strategy, Synchronizer, TopK, VariableStrategy
from tests.cover import crossed, thorough
from tests.engine.pytorch.models import MODELS, WIDE, batches, built, drawn, loss
from tests.engine.pytorch.ranks import Loop, are_equal, trained
from tests.engine.pytorch.test_parity import CLUSTERS, OPTIMIZERS, model, plain, share_of, strategy_for

Optimizer = torch.optim.Optimizer
Synchronizer_ = GradientSynchronizer | None


def check_bits(
    module: nn.Module,
    strategy: Strategy,
    place: str,
    optimizer_of: Callable[[nn.Module], Optimizer],
    loop: Loop | None = None,
    group: str = "threads",
) -> None:
    """Train with a barrier and without, and compare."""
    loop = loop or plain(len(strategy.replicas))
    ends = [
        trained(module, strategy, CLUSTERS[place], optimizer_of, loop, group, overlaps=overlaps)
        for overlaps in (False, True)
    ]
    assert not are_equal(ends[0][0], module), "nothing was trained"
    assert all(are_equal(ends[0][0], replica) for end in ends for replica in end)


@pytest.mark.parametrize(("baseline", "name", "place"), crossed(BASELINES, MODELS, CLUSTERS))
def test_baselines_train_to_the_same_bits(baseline: str, name: str, place: str) -> None:
    module = built(name)
    optimizer = OPTIMIZERS["momentum" if name == "sparse" else "adam"]
    check_bits(module, strategy_for(baseline, module, CLUSTERS[place]), place, optimizer)


@pytest.mark.parametrize("seed", [*range(4), *map(thorough, range(4, 40))])
def test_any_strategy_trains_any_model_to_the_same_bits(seed: int) -> None:
    rng = random.Random(seed)
    module, place = drawn(seed), rng.choice(sorted(CLUSTERS))
    strategy = WIDE.bind(model(module), CLUSTERS[place]).sample(rng)
    group = rng.choice(["threads", "sockets", "gloo"])
    check_bits(module, strategy, place, OPTIMIZERS[rng.choice(["adam", "momentum"])], None, group)


@pytest.mark.parametrize(
    "compressor", [Cast("bf16"), TopK(0.3), PowerSGD(1)], ids=lambda compressor: type(compressor).__name__
)
def test_compressed_gradients_give_the_same_bits(compressor: Any) -> None:
    module = built("dense")
    strategy = strategy_for("byteps", module, CLUSTERS["racks"])

    def compressed(decision: VariableStrategy) -> VariableStrategy:
        replacements: dict[Synchronizer, Synchronizer] = {
            shard: replace(shard, compressor=compressor) for shard in decision.distinct
        }
        return decision.replace_synchronizers(replacements) if "weight" in decision.variable else decision

    strategy = replace(strategy, variables=tuple(map(compressed, strategy.variables)))
    check_bits(module, strategy, "racks", OPTIMIZERS["sgd"])


def schedule_and_clip(module: nn.Module, optimizer: Optimizer, step: Callable[[torch.Tensor], None]) -> None:
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for number, examples in enumerate(batches(4)):
        optimizer.zero_grad(set_to_none=False)
        step(examples)
        if number == 2:
            torch.nn.utils.clip_grad_norm_(module.parameters(), 0.05)
        optimizer.step()
        schedule.step()


def accumulate_over_steps(module: nn.Module, optimizer: Optimizer, step: Callable[[torch.Tensor], None]) -> None:
    for examples in batches(4):  # gradients are never set to zero
        step(examples)
        optimizer.step()
    del module


def skip_steps(module: nn.Module, optimizer: Optimizer, step: Callable[[torch.Tensor], None]) -> None:
    for number, examples in enumerate(batches(4)):
        step(examples)
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
    del module


def look_at_everything(module: nn.Module, optimizer: Optimizer, step: Callable[[torch.Tensor], None]) -> None:
    averages = copy.deepcopy(module)
    for examples in batches(4):
        step(examples)
        optimizer.step()
        gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
        optimizer.zero_grad(set_to_none=False)
        assert all(not parameter.grad.any() for parameter in module.parameters() if parameter.grad is not None)
        assert any(bool(gradient.isfinite().all()) for gradient in gradients)
        with torch.no_grad():
            for average, parameter in zip(averages.parameters(), module.parameters(), strict=True):
                average.lerp_(parameter, 0.5)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    with torch.no_grad():
        for average, parameter in zip(averages.parameters(), module.parameters(), strict=True):
            parameter.add_(average)


def save_and_load(module: nn.Module, optimizer: Optimizer, step: Callable[[torch.Tensor], None]) -> None:
    saved: dict[str, Any] = {}
    for number, examples in enumerate([*batches(4), *batches(4)[2:]]):
        if number == 2:
            saved = copy.deepcopy({"model": module.state_dict(), "optimizer": optimizer.state_dict()})
        if number == 4:
            module.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        optimizer.zero_grad()
        step(examples)
        optimizer.step()


LOOPS = [schedule_and_clip, accumulate_over_steps, skip_steps, look_at_everything, save_and_load]


@pytest.mark.parametrize("steps", LOOPS, ids=lambda steps: steps.__name__)
def test_any_loop_trains_to_the_same_bits(steps: Callable[..., None]) -> None:
    module = built("dense")

    def loop(own: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer_, rank: int) -> None:
        del synchronizer
        steps(own, optimizer, lambda examples: loss(own, share_of(examples, rank)).backward())

    strategy = strategy_for("all_reduce_25mb", module, CLUSTERS["three nodes"])
    check_bits(module, strategy, "three nodes", OPTIMIZERS["adam"], loop)


def test_an_optimizer_that_computes_the_loss_again_waits_for_all_gradients() -> None:
    module = built("dense")

    def loop(own: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer_, rank: int) -> None:
        del synchronizer
        for examples in batches(3, steps=2):

            def closure(examples: torch.Tensor = examples) -> torch.Tensor:
                optimizer.zero_grad()
                value = loss(own, share_of(examples, rank))
                value.backward()
                return value

            optimizer.step(closure)

    strategy = strategy_for("byteps", module, CLUSTERS["three nodes"])
    check_bits(module, strategy, "three nodes", lambda own: torch.optim.Adagrad(own.parameters(), lr=0.1), loop)


class CommonNorm(torch.optim.SGD):
    """Divides all gradients by their common norm, so no parameter can be updated alone."""

    def step(self, closure: Any = None) -> Any:
        torch.nn.utils.clip_grad_norm_([value for group in self.param_groups for value in group["params"]], 0.01)
        return super().step(closure)


def test_updates_that_depend_on_all_gradients_wait_for_them() -> None:
    module = built("dense")
    strategy = strategy_for("byteps", module, CLUSTERS["three nodes"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_bits(module, strategy, "three nodes", lambda own: CommonNorm(own.parameters(), lr=1.0))


@pytest.mark.parametrize(
    ("optimizer", "separable"),
    [
        (torch.optim.SGD, True),
        (torch.optim.AdamW, True),
        (torch.optim.RMSprop, True),
        (torch.optim.Adafactor, True),
        (torch.optim.NAdam, True),
        (CommonNorm, False),
        (torch.optim.LBFGS, False),
    ],
)
def test_an_optimizer_is_separable_if_it_updates_each_parameter_alone(optimizer: Any, separable: bool) -> None:
    parameters = [nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2))]
    assert is_separable(optimizer(parameters, lr=0.0)) is separable


def meeting(act: Callable[[nn.Module, Optimizer, GradientSynchronizer], None], late: Callable[[], None]) -> None:
    """Rank 0 acts between its optimizer's step and the gradients of rank 1, which come after `late`."""
    module, cluster = built("dense"), CLUSTERS["one node"]

    def loop(own: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer_, rank: int) -> None:
        assert synchronizer is not None
        plain(3)(own, optimizer, None, rank)  # the first step tells the order of gradients
        synchronizer.settle()
        if rank == 1:
            late()
        optimizer.zero_grad()
        loss(own, share_of(batches(3)[0], rank)).backward()
        optimizer.step()
        if rank == 0:
            act(own, optimizer, synchronizer)

    strategy = strategy_for("all_reduce_25mb", module, cluster)
    trained(module, strategy, cluster, OPTIMIZERS["momentum"], loop, overlaps=True)


def test_neither_the_backward_pass_nor_the_step_waits_but_a_read_does() -> None:
    go_on, seen = threading.Event(), list[str]()

    def late() -> None:
        assert go_on.wait(30)
        seen.append("gradients of rank 1")

    def act(module: nn.Module, optimizer: Optimizer, synchronizer: GradientSynchronizer) -> None:
        del synchronizer
        parameters = list(module.parameters())
        assert all(isinstance(parameter, LateParameter) for parameter in parameters)
        assert all(isinstance(parameter.grad, LateGradient) for parameter in parameters)
        optimizer.zero_grad()
        assert parameters[0].shape == (13, 3)
        seen.append("rank 0 has stepped")
        go_on.set()
        assert parameters[0].detach().isfinite().all()
        seen.append("rank 0 has read")
        assert parameters[0].grad is None

    meeting(act, late)
    assert seen == ["rank 0 has stepped", "gradients of rank 1", "rank 0 has read"]


def test_the_users_hooks_of_a_step_run_once_a_step() -> None:
    go_on, steps = threading.Event(), list[int]()

    def act(module: nn.Module, optimizer: Optimizer, synchronizer: GradientSynchronizer) -> None:
        optimizer.register_step_post_hook(lambda *_: steps.append(1))
        go_on.set()
        synchronizer.settle()
        assert not steps
        assert not any(isinstance(parameter, LateParameter) for parameter in module.parameters())
        assert len(optimizer.state) == len(list(module.parameters()))

    meeting(act, lambda: go_on.wait(30) or pytest.fail("rank 0 waits"))


def test_a_read_raises_the_error_of_a_lost_rank() -> None:
    def act(module: nn.Module, optimizer: Optimizer, synchronizer: GradientSynchronizer) -> None:
        del optimizer, synchronizer
        next(module.parameters()).sum()

    def late() -> None:
        raise TransportError("lost")

    with pytest.raises(TransportError):
        meeting(act, late)


def test_a_compiled_module_is_refused() -> None:
    module, cluster = built("dense"), CLUSTERS["three nodes"]
    compiled: Any = torch.compile(module, backend="eager")
    strategy = strategy_for("byteps", compiled, cluster)
    with pytest.raises(SpecError, match=r"compiled by torch\.compile cannot wait for single parameters; set"):
        trained(compiled, strategy, cluster, OPTIMIZERS["sgd"], plain(3), overlaps=True)

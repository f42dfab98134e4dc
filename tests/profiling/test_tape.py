"""A tape runs a step again: with the present parameters, and the same operations in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from autosync.profiling.tape import Tape, record_tape


class Net(nn.Module):
    """Saves outputs for its backward pass (softmax, relu, layer norm), changes tensors in place, and reads a number."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = torch.nn.functional.embedding(ids, self.table.weight)
        hidden = torch.relu_(self.first(rows))
        hidden = torch.softmax(self.norm(hidden).transpose(0, 1), dim=-1)
        self.seen += 1
        scale = torch.as_tensor(2.0 if float(ids.max()) > 3 else 1.0)  # from the host, depending on a number read back
        return torch.exp(self.second(hidden).square().mean()) * scale


Step = tuple[Callable[[], Any], dict[str, Any]]
"""A function that computes a loss, and the parameters by name."""


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def step(net: Net) -> Step:
    ids = torch.tensor([[1, 5, 5], [10, 0, 2]])
    return lambda: net(ids), dict(net.named_parameters())


def eager(step: Step) -> tuple[Any, dict[str, Any]]:
    """Return the loss and gradients of a step by autograd."""
    loss, parameters = step
    for parameter in parameters.values():
        parameter.grad = None
    value = loss()
    value.backward()
    return value.detach(), {
        name: parameter.grad.clone() for name, parameter in parameters.items() if parameter.grad is not None
    }


def changed(parameters: dict[str, Any]) -> None:
    with torch.no_grad():
        for parameter in parameters.values():
            parameter.mul_(1.25)


def rerun(tape: Tape) -> tuple[Any, dict[str, Any]]:
    with torch.no_grad():
        find = tape.run()
    return find(tape.loss), {name: find(slot) for name, slot in tape.gradients.items()}


def test_a_tape_gives_the_loss_and_gradients_of_the_parameters_as_they_are_now(step):
    tape = record_tape(*step)
    before = eager(step)
    changed(step[1])
    loss, gradients = eager(step)
    assert not torch.equal(loss, before[0])
    for _ in range(2):
        again, again_gradients = rerun(tape)
        assert torch.equal(again, loss)
        assert set(again_gradients) == set(gradients)
        for name, gradient in gradients.items():
            assert torch.equal(again_gradients[name], gradient), name
            assert not torch.equal(before[1][name], gradient), name


def test_a_variable_without_a_gradient_is_not_on_the_tape(step):
    tape = record_tape(*step)
    assert set(step[1]) - set(tape.ready_at) == {"unused.weight", "unused.bias"}


def test_gradients_are_ready_after_the_loss_those_of_the_last_layer_first(step):
    tape = record_tape(*step)
    assert 0 < tape.loss_at < min(tape.ready_at.values())
    assert tape.ready_at["second.weight"] < tape.ready_at["norm.weight"] < tape.ready_at["first.weight"]
    assert tape.ready_at["first.weight"] < tape.ready_at["table.weight"] <= len(tape.operations)


def test_moments_are_told_in_order_from_before_the_first_operation_to_after_the_last(step):
    tape, told = record_tape(*step), list[int]()
    with torch.no_grad():
        tape.run(told.append)
    assert told == list(range(len(tape.operations) + 1))


def test_what_is_changed_in_a_step_is_changed_again(net, step):
    tape = record_tape(*step)
    assert float(net.seen) == 1
    rerun(tape)
    assert float(net.seen) == 2


def test_recording_leaves_no_hooks(step):
    record_tape(*step)
    assert not any(parameter._post_accumulate_grad_hooks for parameter in step[1].values())


def test_memory_that_nothing_needs_any_more_is_let_go():
    weight = nn.Parameter(torch.ones(100))

    def loss() -> Any:
        x = weight * 1.0
        for _ in range(50):
            x = x.detach() + 1.0
        return (weight * x).sum()

    tape, storages, alive = record_tape(loss, {"w": weight}), list[StorageWeakRef](), list[int]()

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            storages.append(StorageWeakRef(result.untyped_storage()))
            return result

    with torch.no_grad(), Watching():
        tape.run(lambda _: alive.append(sum(not storage.expired() for storage in storages)))
    assert len(tape.operations) > 100
    assert 0 < max(alive) < 10

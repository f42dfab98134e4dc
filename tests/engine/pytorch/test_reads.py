"""The times at which a forward pass reads parameters, and the uses of tied tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from autosync.engine.pytorch.capture import CapturedModule, capture, profile
from autosync.engine.pytorch.reads import ForwardReads
from autosync.engine.pytorch.task import build_task
from autosync.spec import ModelProfile
from autosync.zoo import build_task as build_zoo_task

HERE = __name__

WORK = 300
"""The width of a matrix whose multiplication takes longer than the functions between two reads."""


class ByHand(nn.Module):
    """Reads a parameter of another module by hand, and looks a table up that it also multiplies with."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, WORK)
        self.first, self.second, self.holder = (nn.Linear(WORK, WORK) for _ in range(3))
        self.holder.bias.requires_grad_(False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.first(self.table(rows).sum(1))
        assert self.holder.weight.shape[0] == WORK  # asks for the shape, and reads nothing
        for _ in range(5):
            hidden = torch.tanh(self.second(hidden))
        hidden = F.linear(hidden, self.holder.weight)
        return hidden @ self.table.weight.T


def by_hand() -> Any:
    module = ByHand()
    batch = torch.arange(128).view(64, 2) % 7, torch.randn(64, 20)
    return module, nn.functional.mse_loss, batch, torch.optim.SGD(module.parameters(), lr=0.01)


def profiled(function: Callable[[], Any]) -> tuple[CapturedModule, ModelProfile]:
    captured = profile(capture(build_task(f"{HERE}:{function.__name__}")))
    assert captured.spec.profile is not None
    return captured, captured.spec.profile


def test_reads_are_in_the_order_of_the_forward_pass_and_within_it() -> None:
    times = profile(capture(build_zoo_task("mlp", framework="pytorch"))).spec.profile
    assert times is not None
    assert times.read is not None
    assert 0 <= times.read["0.weight"] <= times.read["2.weight"] <= times.read["4.weight"] <= 1
    assert times.read["4.weight"] > 0
    assert times.uses is None
    assert "uses" not in times.to_json()


def test_a_parameter_that_another_module_reads_is_read_by_the_function_that_has_it() -> None:
    _, times = profiled(by_hand)
    assert times.read is not None
    assert times.read["table.weight"] <= times.read["first.weight"] < times.read["second.weight"]
    assert times.read["second.weight"] < times.read["holder.weight"]


def test_a_tied_table_has_its_uses_with_their_own_times() -> None:
    captured, times = profiled(by_hand)
    assert times.uses is not None
    assert {use.variable for use in times.uses} == {"table.weight"}
    lookup, dense = times.uses
    assert (lookup.rows, dense.rows) == (7.0, None)
    assert lookup.read < dense.read
    assert dense.ready < lookup.ready
    assert CapturedModule.from_bytes(captured.to_bytes()).spec == captured.spec


def test_a_tied_head_of_the_zoo_is_a_use_apart_from_the_lookups() -> None:
    times = profile(capture(build_zoo_task("bert-mini", framework="pytorch"))).spec.profile
    assert times is not None
    assert times.uses is not None
    lookup, dense = times.uses
    assert lookup.variable == dense.variable == "tokens.weight"
    assert lookup.rows is not None
    assert 100 < lookup.rows < 256
    assert lookup.read < dense.read
    assert dense.ready < lookup.ready


class Everywhere(nn.Module):
    """Reads parameters in ways other than by calling their module."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.recurrent = nn.LSTM(4, 4, batch_first=True)
        self.bag = nn.EmbeddingBag(5, 4)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.bag(rows)[:, None]
        hidden, _ = self.attention(hidden, hidden, hidden)
        hidden, _ = self.recurrent(hidden)
        return (hidden * torch.stack([self.scale, self.scale])[0]) @ self.bag.weight.T


def test_each_use_of_a_parameter_is_seen_once() -> None:
    module = Everywhere()
    names = {parameter: name for name, parameter in module.named_parameters()}
    with ForwardReads(module, names) as reads:
        loss = module(torch.tensor([[1, 2, 2], [2, 3, 3]])).sum()
    uses = reads.uses(loss)
    loss.backward()
    assert [names[parameter] for parameter in uses] == ["bag.weight"]
    lookup, dense = uses[module.bag.weight]
    assert (lookup.rows, dense.rows) == (3, None)
    assert lookup.read < dense.read
    assert 0 < dense.ready_at <= lookup.ready_at
    assert reads.first(module.attention.out_proj.weight) < reads.first(module.recurrent.weight_ih_l0)
    hooks = [hook for part in module.modules() for hook in part._forward_pre_hooks]
    assert not hooks


def test_a_parameter_that_is_read_twice_and_never_looked_up_has_no_uses() -> None:
    module = nn.Linear(3, 3)
    with ForwardReads(module, module.parameters()) as reads:
        loss = module(module(torch.ones(2, 3))).sum()
    assert reads.uses(loss) == {}


@pytest.mark.parametrize("read", ["detach", "data"])
def test_a_value_that_is_read_without_autograd_counts_as_read(read: str) -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            early = self.last.weight.detach() if read == "detach" else self.last.weight.data
            return self.last(self.first(inputs @ early))

    module = Reader()
    with ForwardReads(module, module.parameters()) as reads:
        module(torch.ones(2, 3))
    assert reads.first(module.last.weight) < reads.first(module.first.weight)

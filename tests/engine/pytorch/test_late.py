"""Any operation that reads a parameter waits for late values, wherever it is; operations that read none do not wait."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from autosync.engine.pytorch.late import LateParameter, make_late


class ReadsBias(nn.Module):
    """A layer that reads a parameter of another module, as a tied output layer does."""

    def __init__(self, source: nn.Linear) -> None:
        super().__init__()
        self.sources = [source]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.sources[0].bias


READS: dict[str, Callable[[nn.Linear], Any]] = {
    "forward pass": lambda layer: layer(torch.ones(1, 3)),
    "another module": lambda layer: ReadsBias(layer)(torch.ones(1, 3)),
    "a view": lambda layer: layer.bias[1:],
    "a nested argument": lambda layer: torch.cat([layer.bias, layer.bias]),
    "state_dict": lambda layer: layer.state_dict(),
    "load_state_dict": lambda layer: layer.load_state_dict({"weight": torch.ones(3, 3), "bias": torch.ones(3)}),
    "data": lambda layer: layer.bias.data,
    "a list": lambda layer: layer.bias.tolist(),
    "numpy": lambda layer: layer.bias.detach().numpy(),
    "deepcopy": lambda layer: copy.deepcopy(layer),
    "save": lambda layer: torch.save(layer, io.BytesIO()),
    "a vector": lambda layer: nn.utils.parameters_to_vector(layer.parameters()),
    "dtype": lambda layer: layer.double(),
    "an update": lambda layer: torch.optim.SGD(layer.parameters(), lr=0.1, weight_decay=0.1).step(
        lambda: layer(torch.ones(1, 3)).sum().backward()
    ),
    "print": lambda layer: repr(layer.bias),
    "the address": lambda layer: layer.bias.data_ptr(),
}


@pytest.mark.parametrize("read", READS)
def test_the_first_read_waits_and_later_reads_do_not(read: str) -> None:
    layer = nn.Linear(3, 3)
    arrivals: list[str] = []
    assert make_late(layer.bias, lambda: arrivals.append("bias"))
    assert isinstance(layer.bias, nn.Parameter)
    READS[read](layer)
    assert arrivals == ["bias"]
    assert type(layer.bias) is nn.Parameter
    READS[read](layer)
    assert arrivals == ["bias"]


def test_operations_on_gradients_and_shapes_do_not_wait() -> None:
    layer = nn.Linear(3, 3)
    layer(torch.ones(1, 3)).sum().backward()
    make_late(layer.bias, lambda: pytest.fail("waited"))
    layer.zero_grad()
    assert layer.bias.grad is None
    assert layer.bias.shape == (3,)
    assert layer.bias.numel() == layer.bias.size(0) == 3
    assert layer.bias.dtype == torch.float32
    assert layer.bias.requires_grad
    assert isinstance(layer.bias, LateParameter)


def test_values_that_arrive_in_a_forward_pass_count_in_it() -> None:
    layer = nn.Linear(2, 2, bias=False)

    def arrive() -> None:
        with torch.no_grad():
            layer.weight.copy_(torch.eye(2))

    make_late(layer.weight, arrive)
    inputs = torch.tensor([[3.0, 4.0]])
    output = layer(inputs)
    output.sum().backward()
    assert output.tolist() == [[3.0, 4.0]]
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[3.0, 4.0], [3.0, 4.0]]


def test_a_class_of_parameter_of_the_users_own_is_left_alone() -> None:
    class Own(nn.Parameter):
        pass

    parameter = Own(torch.ones(2))
    assert not make_late(parameter, lambda: None)
    assert type(parameter) is Own

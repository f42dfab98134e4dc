"""Pass times: a step's forward and backward pass, and when gradients are ready."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from autosync.profiling.eager import time_eager
from autosync.profiling.passes import CudaClock, HostClock, Marks, PassTimes, medians
from autosync.profiling.replayed import time_cuda_graph, time_replay
from autosync.profiling.tape import record_tape

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU that PyTorch can use")


class Counting:
    """A clock that advances by a second with each mark."""

    def __init__(self) -> None:
        self.now, self.settled = 0.0, False

    def mark(self) -> float:
        self.now += 1.0
        return self.now

    def settle(self) -> None:
        self.settled = True

    def seconds(self, begin: float, end: float) -> float:
        assert self.settled
        return end - begin


def layers(device: str = "cpu") -> tuple[nn.Sequential, dict[str, nn.Parameter], torch.Tensor]:
    net = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 256, bias=False)).to(device)
    return net, dict(net.named_parameters()), torch.ones(64, 256, device=device)


def test_medians_are_of_each_figure_by_itself():
    clock = Counting()
    clock.settle()
    marks = [
        Marks(0.0, 2.0, {"a": 3.0, "b": 7.0}),
        Marks(10.0, 13.0, {"a": 19.0, "b": 15.0}),
        Marks(20.0, 29.0, {"a": 33.0, "b": 30.0}),
    ]
    assert medians(marks, clock) == PassTimes(forward=3.0, backward=5.0, ready={"a": 4.0, "b": 2.0})


def test_eager_passes_time_from_the_start_to_the_loss_and_from_there_to_each_gradient():
    net, parameters, inputs = layers()
    clock, calls = Counting(), list[int]()

    def loss() -> torch.Tensor:
        calls.append(1)
        if len(calls) <= 2:
            clock.now += 1000.0  # of warm-up
        clock.now += 10.0
        return net(inputs).sum()

    passes = time_eager(loss, parameters, clock, warmup=2, steps=3)
    assert len(calls) == 5
    assert passes.forward == 11.0
    assert passes.backward == 3.0
    assert sorted(passes.ready.values()) == [1.0, 2.0, 3.0]
    assert passes.ready["2.weight"] == 1.0


def test_eager_passes_drop_gradients_between_steps_and_leave_no_hooks():
    net, parameters, inputs = layers()
    time_eager(lambda: net(inputs).sum(), parameters, HostClock(), warmup=3, steps=4)
    result = parameters["2.weight"].grad.clone()
    parameters["2.weight"].grad = None
    net(inputs).sum().backward()
    assert torch.equal(result, parameters["2.weight"].grad)
    assert not any(parameter._post_accumulate_grad_hooks for parameter in parameters.values())


def test_passes_from_tape_have_a_time_for_every_variable_within_the_backward_pass():
    net, parameters, inputs = layers()
    passes = time_replay(record_tape(lambda: net(inputs).square().mean(), parameters), warmup=1, steps=5)
    assert passes.forward > 0
    assert 0 < passes.ready["2.weight"] < passes.ready["0.weight"] <= passes.backward
    assert set(passes.ready) == set(parameters)


@gpu
def test_passes_of_a_cuda_graph_are_those_of_the_gpu():
    net, parameters, inputs = layers("cuda")
    for _ in range(2):
        net(inputs).square().mean().backward()
    tape = record_tape(lambda: net(inputs).square().mean(), parameters)
    graphed = time_cuda_graph(tape, warmup=3, steps=20)
    eager = time_eager(lambda: net(inputs).square().mean(), parameters, CudaClock(), warmup=3, steps=20)
    assert 0 < graphed.ready["2.weight"] < graphed.ready["0.weight"] <= graphed.backward
    assert graphed.forward + graphed.backward < eager.forward + eager.backward

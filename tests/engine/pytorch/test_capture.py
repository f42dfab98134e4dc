"""A captured PyTorch module: its spec, its profile, and the same values in every process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

from autosync.engine.pytorch.capture import CapturedModule, capture, profile
from autosync.engine.pytorch.task import build_task
from autosync.errors import ModelError
from autosync.spec import ModelProfile, Variable
from autosync.zoo import build_task as build_zoo_task
from autosync.zoo.names import IN_TORCH
from tests.engine.pytorch.model_functions import LOOKED_UP

HERE = __name__


def lookup() -> Any:
    """A sparse table, a frozen layer, a tied layer and batch norm; inputs are a dict."""
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(20, 6, sparse=True)
            self.frozen = nn.Linear(6, 6).requires_grad_(False)
            self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
            self.second.weight = self.first.weight
            self.norm = nn.BatchNorm1d(6)

        def forward(self, rows: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            hidden = self.frozen(self.table(rows).sum(1)) * scale
            return self.norm(self.second(torch.tanh(self.first(hidden))))

    module = Model()
    inputs = {"rows": torch.arange(8).view(4, 2) % 5, "scale": torch.ones(4, 1)}
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    return module, nn.functional.mse_loss, (inputs, torch.randn(4, 6)), optimizer


def changing() -> Any:
    """Another module in every call."""
    width = changing.calls = getattr(changing, "calls", 1) + 1
    module = nn.Linear(3, width)
    return (
        module,
        nn.functional.mse_loss,
        (torch.ones(2, 3), torch.ones(2, width)),
        torch.optim.SGD(module.parameters()),
    )


def test_the_spec_has_each_variable_once_as_the_step_shows_it() -> None:
    captured = capture(build_task(f"{HERE}:lookup"))
    spec = captured.spec
    assert {variable.name: variable.shape for variable in spec.variables} == {
        "table.weight": (20, 6),
        "first.weight": (6, 6),
        "first.bias": (6,),
        "second.bias": (6,),
        "norm.weight": (6,),
        "norm.bias": (6,),
    }
    assert spec.by_name["table.weight"] == Variable(
        "table.weight", (20, 6), "float32", 5, sparse=True, rows_per_step=5.0, copied=True
    )
    order = sorted(spec.by_name, key=lambda name: spec.by_name[name].ready_order)
    assert order.index("norm.weight") < order.index("second.bias") < order.index("first.weight")
    assert (spec.batch_size, spec.slots) == (4, 1)
    assert spec.optimizer.startswith('SGD {"dampening": 0, ')
    assert [operator.name for operator in spec.operators] == ["table", "frozen", "first", "second", "norm"]
    assert spec.operators[2].flops == 2 * 4 * 6 * 6
    assert spec.operators[3].variables == ("first.weight", "second.bias")


def test_rows_are_counted_on_batches_of_the_data() -> None:
    task = build_task(LOOKED_UP)
    touched = [set(task.training_batch(number)[0].flatten().tolist()) for number in range(4)]
    table = capture(task).spec.by_name["0.weight"]
    assert table.rows_per_step == sum(map(len, touched)) / 4
    assert table.rows_of_two == sum(len(touched[place] | touched[place - 1]) for place in range(4)) / 4


def test_a_note_says_that_replicas_look_up_the_same_rows_without_data() -> None:
    sentence = "All replicas look up the same rows of 'user_table.weight', because"
    task = build_zoo_task("ncf-mini", framework="pytorch")
    assert not any(sentence in note for note in capture(task).notes)
    alone = replace(task, data=None)
    assert any(sentence in note for note in capture(alone).notes)


def failing() -> Any:
    """A table, on data whose third batch looks up a row that the table lacks."""
    module = nn.Sequential(nn.Embedding(5, 2, sparse=True), nn.Flatten())
    data = TensorDataset(torch.tensor([[0], [1], [5], [2]]), torch.zeros(4, 2))
    return module, nn.functional.mse_loss, DataLoader(data, 1), torch.optim.SGD(module.parameters(), 0.1)


def test_a_batch_that_fails_is_named() -> None:
    with pytest.raises(ModelError, match=r"^A step of '.*:failing' on batch 2 of its data failed with IndexError"):
        capture(build_task(f"{HERE}:failing"))


def test_flops_count_once_where_a_module_with_parameters_is_inside_another() -> None:
    task = build_zoo_task("bert-mini", framework="pytorch")
    with FlopCounterMode(display=False) as counter:
        task.loss_on(task.batch)
    operators = capture(task).spec.operators
    assert operators[0].variables == ("positions",)
    assert sum(operator.flops for operator in operators) == counter.get_total_flops()


def test_a_profile_says_when_gradients_are_ready() -> None:
    times = profile(capture(build_zoo_task("mlp", framework="pytorch"))).spec.profile
    assert isinstance(times, ModelProfile)
    assert times.forward_seconds > 0
    assert times.backward_seconds > 0
    assert times.ready["4.weight"] <= times.ready["2.weight"] <= times.ready["0.weight"] <= 1


THREADS: set[int] = set()
"""The numbers of threads in forward passes of `counting`."""


def counting() -> Any:
    """A module that notes how many threads compute its forward pass."""

    class Counting(nn.Linear):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            THREADS.add(torch.get_num_threads())
            return super().forward(values)

    module = Counting(3, 2)
    return module, nn.functional.mse_loss, (torch.ones(2, 3), torch.ones(2, 2)), torch.optim.SGD(module.parameters())


def test_a_profile_is_the_processor_time_of_one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        captured = capture(build_task(f"{HERE}:counting"))
        THREADS.clear()
        profile(captured)
        assert {1} == THREADS
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_captured_module_is_the_same_in_another_process() -> None:
    captured = profile(capture(build_task(f"{HERE}:lookup")))
    again = CapturedModule.from_bytes(captured.to_bytes())
    assert again.spec == captured.spec
    first, second = captured.task.module.state_dict(), again.task.module.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(name.startswith("norm.running") for name in first)


def test_steps_leave_the_captured_values_alone() -> None:
    captured = capture(build_task(f"{HERE}:lookup"))
    fresh = captured.task.fresh()
    fresh.loss_on(fresh.batch_of(1)).backward()
    fresh.optimizer.step()
    for name, value in captured.task.module.state_dict().items():
        if name in captured.values:
            assert torch.equal(value, captured.values[name])


def test_a_function_that_builds_another_module_elsewhere_is_refused() -> None:
    captured = capture(build_task(f"{HERE}:changing"))
    with pytest.raises(ModelError, match="built another module here than when it was captured"):
        _ = CapturedModule.from_bytes(captured.to_bytes()).task


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ModelError, match="no captured PyTorch module"):
        CapturedModule.from_bytes(b"\x10\0\0\0\0\0\0\0{}" + bytes(20))


PLAIN = nn.Linear(3, 1)
BATCH = torch.ones(2, 3), torch.ones(2, 1)
SGD = torch.optim.SGD(PLAIN.parameters())


class Idle(nn.Module):
    """A module with a layer that no output needs."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = nn.Linear(3, 1), nn.Linear(3, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.used(inputs)


def _idle() -> Any:
    module = Idle()
    return module, nn.functional.mse_loss, BATCH, torch.optim.SGD(module.parameters())


def _raising() -> Any:
    raise KeyError("data")


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no tuple": (lambda: PLAIN, "must return (module, loss, (inputs, targets), optimizer), not Linear"),
    "no module": (lambda: (1, 2, 3, 4), "its first item is int and no torch.nn.Module"),
    "no loss": (lambda: (PLAIN, "mse", BATCH, SGD), "its second item is str and no function"),
    "no batch": (lambda: (PLAIN, nn.MSELoss(), BATCH[0], SGD), "its third item is no pair of inputs and targets"),
    "no tensors": (lambda: (PLAIN, nn.MSELoss(), ([1], [2]), SGD), "An example batch holds tensors only, not int"),
    "no optimizer": (lambda: (PLAIN, nn.MSELoss(), BATCH, 0.1), "its fourth item is float and no torch.optim"),
    "sizes": (lambda: (PLAIN, nn.MSELoss(), (torch.ones(2, 3), torch.ones(3, 1)), SGD), "the same number of examples"),
    "other optimizer": (
        lambda: (nn.Linear(3, 1), nn.MSELoss(), BATCH, SGD),
        "the optimizer does not hold parameter 'weight'",
    ),
    "raises": (_raising, "called without arguments, failed: KeyError: 'data'."),
    "vector loss": (lambda: (PLAIN, nn.MSELoss(reduction="none"), BATCH, SGD), "must be a scalar tensor"),
    "nan": (lambda: (PLAIN, lambda y, z: (y - z).mean() * torch.nan, BATCH, SGD), "is nan on the example batch"),
    "shape": (
        lambda: (PLAIN, nn.MSELoss(), (torch.ones(2, 5), BATCH[1]), SGD),
        "A step of .* failed with RuntimeError",
    ),
    "no gradient": (lambda: (PLAIN, lambda y, _: y.detach().mean(), BATCH, SGD), "depends on no trainable parameter"),
    "idle": (_idle, "2 parameters get no gradient, such as 'idle.weight'; freeze them"),
}


def wrong() -> Any:
    """The faulty function of the case under test."""
    return WRONG[CASE[0]][0]()


CASE = [""]


@pytest.mark.parametrize("case", WRONG)
def test_a_fault_of_a_model_is_one_sentence(case: str) -> None:
    CASE[0] = case
    with pytest.raises(ModelError) as raised:
        capture(build_task(f"{HERE}:wrong"))
    sentence = WRONG[case][1]
    text = str(raised.value)
    assert sentence in text or all(part in text for part in sentence.split(".*"))
    assert "\n" not in text


@pytest.mark.parametrize("name", [name for name in IN_TORCH if name.endswith("-mini")])
def test_models_of_the_zoo_are_captured(name: str) -> None:
    task = build_zoo_task(name, framework="pytorch")
    spec = capture(task).spec
    assert spec.name == name
    assert list(spec.by_name) == list(task.parameters)


def test_a_model_without_a_twin_is_refused_with_those_there_are() -> None:
    with pytest.raises(ModelError, match=r"No model is called 'digits' in PyTorch. Known: bert-base, bert-classifier"):
        build_zoo_task("digits", framework="pytorch")

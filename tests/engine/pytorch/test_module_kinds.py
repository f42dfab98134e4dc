"""Modules of unusual kinds: each is captured as it is, captured with a note, or refused in a sentence."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from autosync.baselines import BASELINES
from autosync.engine.core.registry import engine_named
from autosync.engine.pytorch.capture import CapturedModule, capture, profile
from autosync.engine.pytorch.task import ModuleTask, build_task, state_of
from autosync.errors import ModelError
from tests.cases import local_cluster

ENGINE = engine_named("pytorch")
HERE = __name__

INPUTS, TARGETS = torch.linspace(-1, 1, 12).view(4, 3), torch.ones(4, 3)

Parts = tuple[nn.Module, Callable[..., torch.Tensor], tuple[Any, Any], torch.optim.Optimizer]


def parts(module: nn.Module, loss: Callable[..., torch.Tensor] = F.mse_loss, **optimizer: Any) -> Parts:
    """A task of `module` with inputs of three features, and SGD unless another optimizer is named."""
    make = getattr(torch.optim, optimizer.pop("name", "SGD"))
    return module, loss, (INPUTS, TARGETS), make(module.parameters(), **optimizer)


class Blocks(nn.Module):
    """Layers, one after the other, as `join` says."""

    def __init__(self, join: Callable[[Any, torch.Tensor], torch.Tensor], **more: Any) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.join = join
        for name, value in more.items():
            setattr(self, name, value)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.join(self, inputs)


def _plain(blocks: Any, inputs: torch.Tensor) -> torch.Tensor:
    return blocks.last(torch.tanh(blocks.first(inputs)))


def _detached(blocks: Any, inputs: torch.Tensor) -> torch.Tensor:
    """The gradient of `first` needs the value of `last` once more, after the gradient of `last` is complete."""
    return blocks.last(torch.tanh(blocks.first(inputs)) @ blocks.last.weight.detach())


def _in_bfloat16(blocks: Any, inputs: torch.Tensor) -> torch.Tensor:
    return _plain(blocks, inputs.to(blocks.first.weight.dtype)).float()


def _reentrant(blocks: Any, inputs: torch.Tensor) -> torch.Tensor:
    hidden = inputs.clone().requires_grad_(True)
    for _ in range(2):
        hidden = checkpoint(blocks.first, hidden, use_reentrant=True)
    return blocks.last(hidden)


def _checkpointed(blocks: Any, inputs: torch.Tensor) -> torch.Tensor:
    return blocks.last(checkpoint(blocks.first, inputs, use_reentrant=False))


def _normed() -> nn.Module:
    """A module that keeps a tensor with a history, which cannot be copied."""
    return Blocks(_plain, first=torch.nn.utils.weight_norm(nn.Linear(3, 3)))


class LookedUp(nn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 3, sparse=True, **settings)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.table(inputs.abs().mul(4).long()).sum(1)


def _grouped() -> Parts:
    module = Blocks(_plain)
    groups = [{"params": [module.first.weight, module.last.weight]}, {"params": [module.first.bias, module.last.bias]}]
    groups[1]["weight_decay"] = 0.0  # type: ignore[assignment]
    return module, F.mse_loss, (INPUTS, TARGETS), torch.optim.AdamW(groups)


def _compiled_block() -> nn.Module:
    return Blocks(_plain, first=torch.compile(nn.Linear(3, 3), backend="aot_eager"))


def _compiled_in_place() -> nn.Module:
    module = Blocks(_plain)
    module.last.compile(backend="eager")
    return module


def _without_elements() -> nn.Module:
    return Blocks(_plain, empty=nn.Parameter(torch.ones(0, 3)))


def _frozen() -> nn.Module:
    empty = nn.Parameter(torch.ones(0, 3), requires_grad=False)
    return Blocks(_plain, empty=empty, count=nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False))


def _with_sparse_buffer() -> nn.Module:
    module = Blocks(_plain)
    module.register_buffer("graph", torch.eye(3).to_sparse())
    return module


def _with_shared_buffer() -> nn.Module:
    """A buffer with the memory of a parameter, and a matrix stored by columns."""
    module = Blocks(_plain, transposed=nn.Parameter(torch.ones(3, 2).T))
    module.join = lambda blocks, inputs: _plain(blocks, inputs) + blocks.transposed.sum()
    module.register_buffer("alias", module.first.weight.data)
    return module


def _summed(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(outputs, targets, reduction="sum")


TASKS: dict[str, Callable[[], Parts]] = {
    "plain": lambda: parts(Blocks(_plain)),
    "detached": lambda: parts(Blocks(_detached)),
    "summed": lambda: parts(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.9)), _summed),
    "grouped": _grouped,
    "dropped": lambda: parts(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)), momentum=0.9),
    "normed": lambda: parts(_normed(), name="Adam"),
    "bfloat16": lambda: parts(Blocks(_in_bfloat16).bfloat16()),
    "float16": lambda: parts(Blocks(_in_bfloat16).half()),
    "complex": lambda: parts(nn.Linear(3, 3, dtype=torch.complex64)),
    "frozen": lambda: parts(_frozen()),
    "without elements": lambda: parts(_without_elements()),
    "lazy": lambda: parts(nn.Sequential(nn.Linear(3, 5), nn.LazyLinear(3))),
    "sparse": lambda: parts(LookedUp(), name="Adagrad"),
    "sparse by Adam": lambda: parts(LookedUp(), name="Adam"),
    "max_norm": lambda: parts(LookedUp(max_norm=0.1)),
    "sparse buffer": lambda: parts(_with_sparse_buffer()),
    "shared buffer": lambda: parts(_with_shared_buffer()),
    "compiled": lambda: parts(torch.compile(Blocks(_plain), backend="aot_eager")),  # type: ignore[arg-type]
    "compiled block": lambda: parts(_compiled_block()),
    "compiled in place": lambda: parts(_compiled_in_place()),
    "reentrant": lambda: parts(Blocks(_reentrant)),
    "checkpointed": lambda: parts(Blocks(_checkpointed)),
    "closure": lambda: parts(Blocks(_plain), name="LBFGS"),
}


def chosen() -> Parts:
    """The parts of the task under test."""
    return TASKS[CHOSEN[0]]()


CHOSEN = [""]


def task_of(name: str) -> ModuleTask:
    CHOSEN[0] = name
    return build_task(f"{HERE}:chosen")


REFUSED = {
    "complex": "parameter 'weight' has dtype complex64, and only float16, bfloat16, float32, float64 can be trained",
    "without elements": "parameter 'empty' has no elements (its shape is (0, 3)); freeze it",
    "lazy": "'1.weight' of a lazy module has no shape yet; call the module on the batch before returning it",
    "sparse by Adam": "failed with RuntimeError: Adam does not support sparse gradients",
    "max_norm": "changes parameter 'table.weight', as an embedding with max_norm does, so replicas with different",
    "sparse buffer": "'graph' is a sparse tensor, which no file of values can hold",
    "compiled in place": "module 'last' is compiled in place, and its copies are not; compile it with torch.compile",
    "reentrant": "gets its gradient twice in one backward pass, as reentrant checkpointing does; use",
    "closure": "LBFGS of 'tests.engine.pytorch.test_module_kinds:chosen' computes several gradients in a step",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_kind_that_cannot_be_captured_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(ModelError) as raised:
        capture(task_of(name))
    assert REFUSED[name] in str(raised.value)
    assert "\n" not in str(raised.value)


CAPTURED = [name for name in TASKS if name not in REFUSED]


@pytest.mark.parametrize("name", CAPTURED)
def test_a_captured_kind_is_profiled_and_comes_back_from_bytes_with_its_values(name: str) -> None:
    captured = profile(capture(task_of(name)))
    again = CapturedModule.from_bytes(captured.to_bytes())
    assert (again.spec, again.notes, again.updates_early) == (captured.spec, captured.notes, captured.updates_early)
    values, state = captured.values, state_of(again.task.module)
    assert values.keys() == state.keys()
    assert all(torch.equal(values[key], state[key]) for key in values)
    assert all(bool(value.isfinite().all()) for value in values.values())
    fresh = again.task.fresh()
    fresh.loss_on(fresh.batch_of(0)).backward()
    fresh.optimizer.step()


@pytest.mark.parametrize(
    "name", ["bfloat16", "float16", "detached", "normed", "compiled", "compiled block", "checkpointed", "shared buffer"]
)
def test_a_captured_kind_trains_on_two_replicas_which_stay_alike(name: str) -> None:
    captured, cluster = capture(task_of(name)), local_cluster(2)
    ENGINE.use_logical_devices(2)
    step = ENGINE.local_session(captured, cluster).realize(BASELINES["byteps"](captured.spec, cluster))
    losses = [step() for _ in range(3)]
    first, second = (step.values(replica) for replica in range(2))
    step.close()
    assert losses[2] < losses[0]
    assert all(np.array_equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("name", ["plain", "dropped", "detached", "normed", "compiled block"])
def test_capture_leaves_the_task_and_all_random_states_alone(name: str) -> None:
    task = task_of(name)
    before = {key: value.detach().clone() for key, value in state_of(task.module).items()}
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    profile(capture(task))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]  # type: ignore[index]
    assert random.getstate() == states[2]
    assert all(torch.equal(value, before[key]) for key, value in state_of(task.module).items())
    assert all(parameter.grad is None for parameter in task.module.parameters())
    assert not task.optimizer.state
    assert all(part.training for part in task.module.modules())
    hooks = [hook for part in task.module.modules() for hook in part._forward_pre_hooks]
    assert len(hooks) == (1 if name == "normed" else 0)  # weight_norm has a hook of its own


def test_capture_leaves_gradients_and_the_state_of_the_optimizer_alone() -> None:
    task = task_of("dropped")
    task.loss_on(task.batch).backward()
    task.optimizer.step()
    gradients = {
        name: parameter.grad.clone() for name, parameter in task.parameters.items() if parameter.grad is not None
    }
    moments = [entry["momentum_buffer"].clone() for entry in task.optimizer.state.values()]
    capture(task)
    for name, parameter in task.parameters.items():
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, gradients[name])
    found = [entry["momentum_buffer"] for entry in task.optimizer.state.values()]
    assert all(torch.equal(first, second) for first, second in zip(moments, found, strict=True))


def test_a_gradient_that_reads_a_value_without_autograd_forbids_early_updates_and_is_captured_otherwise() -> None:
    detached, plain = capture(task_of("detached")), capture(task_of("plain"))
    assert (detached.updates_early, plain.updates_early) == (False, True)
    assert plain.notes == ()
    (note,) = detached.notes
    assert note.endswith("updated within it, a gradient becomes NaN or the step fails, as with x * w.detach().")
    assert detached.spec.slots == plain.spec.slots == 0
    assert [variable.ready_order for variable in detached.spec.variables] == [
        variable.ready_order for variable in plain.spec.variables
    ]


class NeedsAll(torch.optim.SGD):
    """An optimizer whose step reads all gradients."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert all(parameter.grad is not None for group in self.param_groups for parameter in group["params"])
        super().step(closure)


def test_an_optimizer_that_needs_all_gradients_forbids_early_updates_and_is_captured_otherwise() -> None:
    module = Blocks(_plain)
    TASKS["by optimizer"] = lambda: (module, F.mse_loss, (INPUTS, TARGETS), NeedsAll(module.parameters(), momentum=0.9))
    captured = capture(task_of("by optimizer"))
    assert (captured.updates_early, captured.spec.slots) == (False, 1)


@pytest.mark.parametrize(("optimizer", "slots"), [("SGD", 0), ("Adam", 2), ("Adagrad", 1), ("RMSprop", 1)])
def test_slots_are_those_that_the_optimizer_keeps_of_a_variables_size(optimizer: str, slots: int) -> None:
    module = Blocks(_plain)
    made = getattr(torch.optim, optimizer)(module.parameters())
    TASKS["by optimizer"] = lambda: (module, F.mse_loss, (INPUTS, TARGETS), made)
    assert capture(task_of("by optimizer")).spec.slots == slots


def test_a_loss_that_is_a_sum_is_captured_with_a_note() -> None:
    (note,) = capture(task_of("summed")).notes
    assert note.startswith(
        f"The loss of '{HERE}:chosen' doubles with the batch, so it is a sum; gradients are averaged"
    )
    assert capture(task_of("dropped")).notes == ()


@pytest.mark.parametrize(
    ("name", "operators"), [("compiled", ["OptimizedModule"]), ("compiled block", ["first", "last"])]
)
def test_a_compiled_module_is_one_operator_and_has_a_note(name: str, operators: list[str]) -> None:
    captured = profile(capture(task_of(name)))
    assert [operator.name for operator in captured.spec.operators] == operators
    assert captured.spec.flops == 2 * (2 * 4 * 3 * 3)
    assert len(captured.spec.operators[0].variables) == (4 if name == "compiled" else 2)
    (note,) = captured.notes
    assert "has compiled modules, whose gradients are complete only at the end of their backward pass" in note
    assert captured.spec.profile is not None
    assert captured.spec.profile.read is not None


def test_settings_of_parameter_groups_are_in_the_spec() -> None:
    words = capture(task_of("grouped")).spec.optimizer
    assert words.startswith("AdamW [{")
    assert words.count('"weight_decay": 0.0}') == words.count('"weight_decay": 0.01}') == 1


def test_frozen_parameters_of_any_kind_are_no_variables() -> None:
    captured = capture(task_of("frozen"))
    assert "empty" not in captured.spec.by_name
    assert "count" not in captured.spec.by_name
    assert captured.values["count"].dtype == torch.int64


def test_half_precision_is_in_the_spec() -> None:
    assert {variable.dtype for variable in capture(task_of("bfloat16")).spec.variables} == {"bfloat16"}
    assert {variable.dtype for variable in capture(task_of("float16")).spec.variables} == {"float16"}


def test_a_module_that_cannot_be_copied_is_built_again_with_its_values_and_state() -> None:
    task = task_of("normed")
    task.loss_on(task.batch).backward()
    task.optimizer.step()
    fresh = task.fresh()
    first, second = state_of(task.module), state_of(fresh.module)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not {id(tensor) for tensor in first.values()} & {id(tensor) for tensor in second.values()}
    assert len(fresh.optimizer.state) == len(task.optimizer.state)

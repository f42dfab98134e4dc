"""The zoo's models in PyTorch have the variables and batches of their Keras twins, and a gradient for each variable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
import torch

from autosync.zoo import MODELS
from autosync.zoo.names import IN_TORCH, torch_builder

SPARSE_TABLES = {
    "bert-classifier": ["tokens.weight"],
    "bert-classifier-mini": ["tokens.weight"],
    "ncf": ["user_factors.weight", "item_factors.weight", "user_table.weight", "item_table.weight"],
    "ncf-mini": ["user_factors.weight", "item_factors.weight", "user_table.weight", "item_table.weight"],
    "transformer-lm": ["tokens.weight"],
    "transformer-lm-mini": ["tokens.weight"],
}

WORDS = {"K": 1e3, "thousand": 1e3, "M": 1e6}


@pytest.fixture(scope="module")
def keras_models() -> dict[str, list[Any]]:
    """By name, the batch size of the Keras model and the shapes of its trainable variables."""
    environment = os.environ | {"KERAS_BACKEND": "torch"}
    command = [sys.executable, "-m", "tests.zoo.keras_shapes"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    shapes: dict[str, list[Any]] = json.loads(shown.splitlines()[-1])
    return shapes


def built(name: str) -> tuple[torch.nn.Module, tuple[Any, Any]]:
    """The module `name` on the `meta` device, which stores nothing, and its example batch."""
    family = import_module(torch_builder(name).partition(":")[0])
    with torch.device("meta"):
        module = family.module_of(name)
    return module, family.batch_of(name)


def as_tuple(inputs: Any) -> tuple[torch.Tensor, ...]:
    return inputs if isinstance(inputs, tuple) else (inputs,)


@pytest.mark.parametrize("name", IN_TORCH)
def test_variables_and_batch_sizes_are_those_of_keras(name: str, keras_models: dict[str, list[Any]]) -> None:
    module, (inputs, targets) = built(name)
    shapes = [sorted(parameter.shape) for parameter in module.parameters() if parameter.requires_grad]
    batch_size, *expected = keras_models[name]
    assert sorted(shapes) == sorted(expected)
    assert {tensor.shape[0] for tensor in (*as_tuple(inputs), targets)} == {batch_size}


@pytest.mark.parametrize("name", IN_TORCH)
def test_every_variable_has_a_gradient_that_is_sparse_where_rows_are_looked_up(name: str) -> None:
    module, (inputs, targets) = built(name)
    outputs = module(*(tensor.to("meta") for tensor in as_tuple(inputs)))
    assert outputs.shape[: targets.ndim] == targets.shape
    outputs.float().mean().backward()
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    assert all(parameter.grad is not None for parameter in trained.values())
    sparse = [name for name, parameter in trained.items() if parameter.grad is not None and parameter.grad.is_sparse]
    assert sparse == SPARSE_TABLES.get(name, [])


def test_the_index_states_the_number_of_parameters() -> None:
    for name in IN_TORCH:
        *_, number, unit = MODELS[name].removesuffix(" parameters").split()
        module, _ = built(name)
        count = sum(parameter.numel() for parameter in module.parameters())
        assert count == pytest.approx(float(number) * WORDS[unit], rel=0.06), name


def test_only_the_models_for_training_to_a_target_lack_a_twin() -> None:
    assert set(MODELS) - set(IN_TORCH) == {"characters", "digits", "digits-by-label", "quadratic", "teacher"}

"""The elementwise test of optimizers: whether parts of a parameter can be updated alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from autosync.engine.pytorch.optimizer import is_elementwise, needs_closure, remade

ELEMENTWISE = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Rprop", "ASGD", "Adadelta")
OTHERS = [name for name in ("Adafactor", "Muon", "LBFGS", "SparseAdam") if hasattr(torch.optim, name)]


def made(name: str, **settings: Any) -> torch.optim.Optimizer:
    """The optimizer `name` for a matrix."""
    optimizer: torch.optim.Optimizer = getattr(torch.optim, name)([nn.Parameter(torch.ones(3, 3))], **settings)
    return optimizer


class Clipping(torch.optim.SGD):
    """Each parameter's gradient is clipped by its norm."""

    def step(self, closure: Any = None) -> None:
        del closure
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter -= group["lr"] * parameter.grad / max(1.0, float(parameter.grad.norm() / 100))


class Noisy(torch.optim.SGD):
    """Langevin dynamics: a step adds noise."""

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.grad += torch.randn_like(parameter)
        super().step(closure)


class Named(torch.optim.SGD):
    """An optimizer that cannot be made from parameters and defaults."""

    def __init__(self, name: str, parameters: Any) -> None:
        self.name = name
        super().__init__(parameters, lr=0.1)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_common_optimizers_are_elementwise(name: str) -> None:
    assert is_elementwise(made(name))
    assert is_elementwise(made(name, foreach=True))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_a_fused_optimizer_is_elementwise(name: str) -> None:
    assert is_elementwise(made(name, fused=True, lr=torch.tensor(0.1) if name == "Adam" else 0.1))


@pytest.mark.parametrize("name", OTHERS)
def test_an_optimizer_that_needs_whole_parameters_is_not_elementwise(name: str) -> None:
    assert not is_elementwise(made(name))


def test_settings_of_every_group_count() -> None:
    matrices = [nn.Parameter(torch.ones(2, 2)) for _ in range(2)]
    assert is_elementwise(torch.optim.AdamW([{"params": matrices[:1], "weight_decay": 0.0}, {"params": matrices[1:]}]))
    assert not is_elementwise(Clipping([{"params": matrices[:1], "lr": 0.0}, {"params": matrices[1:]}], lr=0.1))


def test_a_schedule_that_starts_at_zero_does_not_hide_a_norm() -> None:
    assert is_elementwise(made("Adam", lr=0.0))
    assert not is_elementwise(Clipping([nn.Parameter(torch.ones(2))], lr=0.0))


def test_the_test_leaves_the_optimizer_and_the_random_state_alone() -> None:
    optimizer = Noisy([nn.Parameter(torch.ones(2, 2))], lr=0.1)
    before = torch.get_rng_state()
    assert not is_elementwise(optimizer)
    assert torch.equal(torch.get_rng_state(), before)
    assert not optimizer.state
    assert torch.equal(optimizer.param_groups[0]["params"][0], torch.ones(2, 2))


def test_an_optimizer_that_cannot_be_made_again_counts_as_not_elementwise() -> None:
    assert not is_elementwise(Named("mine", [nn.Parameter(torch.ones(2))]))


def test_an_optimizer_is_remade_for_other_parameters() -> None:
    parameters = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    original = torch.optim.AdamW(parameters, lr=0.5, betas=(0.8, 0.9))
    twin = remade(original, [({"lr": 0.25}, parameters[:1]), ({}, parameters[1:])])
    assert type(twin) is torch.optim.AdamW
    assert [group["lr"] for group in twin.param_groups] == [0.25, 0.5]
    assert twin.param_groups[1]["betas"] == (0.8, 0.9)


def test_only_lbfgs_needs_a_closure() -> None:
    assert needs_closure(made("LBFGS"))
    assert not any(needs_closure(made(name)) for name in ELEMENTWISE)

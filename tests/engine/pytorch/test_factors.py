"""Sufficient factors: the gradients that have them, and training with factors instead of gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from autosync.engine.core.registry import engine_named
from autosync.engine.pytorch.capture import capture, profile
from autosync.engine.pytorch.check_step import check_step
from autosync.engine.pytorch.factors import FactorTaps, layers_with_factors
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.engine.pytorch.task import ModuleTask
from autosync.layout import factor_messages
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    ModelSpec,
    Pace,
    ParameterServer,
    Strategy,
    SufficientFactors,
    Synchronizer,
    VariableStrategy,
)
from autosync.zoo import build_task
from tests.cases import local_cluster, star_cluster
from tests.cover import crossed
from tests.engine.pytorch.models import BATCH, batches, built, drawn, loss
from tests.engine.pytorch.ranks import trained
from tests.engine.pytorch.test_parity import CLUSTERS, OPTIMIZERS, check_parity, model, share_of
from tests.engine.pytorch.test_traffic import bytes_of_a_step, check_links

FACTORS = SufficientFactors()
WAYS: dict[str, Synchronizer] = {
    "all to all": AllReduce(0, compressor=FACTORS),
    "to a server": ParameterServer("node0/cpu:0", compressor=FACTORS),
    "to a server, local copies": ParameterServer("node0/cpu:0", True, compressor=FACTORS),
}


def strategy_of(spec: ModelSpec, cluster: ClusterSpec, synchronizer: Synchronizer) -> Strategy:
    """Sufficient factors for all variables that have them, in one bucket; the rest in another."""
    decisions = tuple(
        VariableStrategy(variable.name, (AllReduce(1) if variable.factor_rows is None else synchronizer,))
        for variable in spec.variables
    )
    return Strategy(tuple(map(str, cluster.replica_devices)), decisions)


def task_of(
    module: nn.Module, inputs: torch.Tensor, loss_of: Callable[[Any, Any], torch.Tensor] = mse_loss
) -> ModuleTask:
    with torch.no_grad():
        targets = torch.zeros_like(module(inputs))
    return ModuleTask("task", "", module, loss_of, (inputs, targets), torch.optim.SGD(module.parameters(), lr=0.1))


class Sequence(nn.Module):
    """A layer that multiplies every place of a sequence, and a layer that multiplies their mean twice."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.twice = nn.Linear(3, 5), nn.Linear(5, 5, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.twice(torch.relu_(self.twice(torch.relu(self.places(inputs)).mean(1))))


def rows_of_factors(task: ModuleTask) -> dict[str, int]:
    """The rows of the weights that have factors. The task cannot be used afterwards."""
    return check_step(task, task.fresh).factor_rows


class TestFactorsAreFound:
    def test_with_a_row_for_every_product_with_a_vector(self) -> None:
        task = task_of(Sequence(), torch.randn(4, 6, 3))
        assert rows_of_factors(task) == {"places.weight": 24, "twice.weight": 8}

    def test_in_a_captured_module(self) -> None:
        spec = capture(build_task("mlp", framework="pytorch")).spec
        for variable in spec.variables:
            assert variable.factor_rows == (spec.batch_size if len(variable.shape) == 2 else None)

    def test_not_for_a_tied_table(self) -> None:
        module = built("tied")
        assert layers_with_factors(module).keys() == {dict(module.named_parameters())["hidden.weight"]}

    def test_not_for_an_output_of_several_places_that_is_changed_in_place(self) -> None:
        for shape, found in (((4, 6, 3), {}), ((4, 3), {"0.weight": 4})):
            module = nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=True))
            assert rows_of_factors(task_of(module, torch.randn(shape))) == found

    def test_not_for_a_weight_with_a_penalty(self) -> None:
        module = nn.Linear(3, 2)
        task = task_of(
            module, torch.randn(4, 3), lambda outputs, targets: mse_loss(outputs, targets) + module.weight.norm()
        )
        assert rows_of_factors(task) == {}

    def test_not_for_a_weight_that_another_module_reads(self) -> None:
        module = nn.MultiheadAttention(4, 2)
        assert layers_with_factors(module) == {}

    def test_not_for_a_gradient_that_is_cast(self) -> None:
        task = task_of(nn.Linear(3, 2), torch.randn(4, 3))

        class Cast(nn.Module):
            def forward(self, inputs: torch.Tensor) -> torch.Tensor:
                with torch.autocast("cpu", torch.bfloat16):
                    return task.module(inputs)

        assert rows_of_factors(replace(task, module=Cast())) == {}


@pytest.mark.parametrize(("way", "place"), [*crossed(WAYS, CLUSTERS), ("all to all", "one replica")])
def test_training_is_that_of_one_process(way: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if place == "two nodes of two":
        monkeypatch.setattr(factor_messages, "PARCEL_BYTES", 100)  # a message for each matrix
    module, cluster = built("dense"), CLUSTERS.get(place, local_cluster(1))
    strategy = strategy_of(model(module), cluster, WAYS[way])
    check_parity(module, strategy, cluster, OPTIMIZERS["adam"])


def test_over_sockets_too() -> None:
    module, cluster = built("tied"), CLUSTERS["racks"]
    strategy = strategy_of(model(module), cluster, WAYS["all to all"])
    check_parity(module, strategy, cluster, OPTIMIZERS["momentum"], group="sockets")


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_layers_may_be_used_several_times(seed: int) -> None:
    module, cluster = drawn(seed), CLUSTERS["three nodes"]
    check_parity(module, strategy_of(model(module), cluster, WAYS["all to all"]), cluster, OPTIMIZERS["momentum"])


def test_factors_accumulate_over_passes_and_ranks_may_have_batches_of_any_size() -> None:
    cluster = CLUSTERS["three nodes"]

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        for examples in batches(3):
            optimizer.zero_grad()
            if synchronizer is None:
                # Three replicas with 3, 1 and 4 examples in the first pass, and all theirs in the second.
                parts = [share_of(examples, number) for number in range(3)]
                first = sum(loss(module, part[:count]) for part, count in zip(parts, (3, 1, 4), strict=True))
                ((first + sum(loss(module, part) for part in parts)) / 3).backward()
            else:
                part = share_of(examples, rank)
                with synchronizer.paused():
                    loss(module, part[: (3, 1, 4)[rank]]).backward()
                loss(module, part).backward()
            optimizer.step()

    module = built("dense")
    strategy = strategy_of(model(module), cluster, WAYS["all to all"])
    check_parity(module, strategy, cluster, OPTIMIZERS["momentum"], loop)


def test_a_gradient_that_is_no_product_of_the_noted_factors_is_refused() -> None:
    module, cluster = built("dense"), CLUSTERS["one node"]

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del optimizer, synchronizer
        for examples in batches(3):
            loss(module, share_of(examples, rank)).backward()  # the second pass adds to the mean of the first

    with pytest.raises(RuntimeError, match=r"parameter '5\.weight' is not the product .*; set gradients to zero"):
        trained(module, strategy_of(model(module), cluster, WAYS["all to all"]), cluster, OPTIMIZERS["sgd"], loop)


@pytest.mark.parametrize(("way", "place"), crossed(WAYS, CLUSTERS))
def test_links_carry_the_predicted_bytes(monkeypatch: pytest.MonkeyPatch, way: str, place: str) -> None:
    module, cluster = built("dense"), CLUSTERS[place]
    spec = model(module)
    strategy = strategy_of(spec, cluster, WAYS[way])
    measured = [replace(variable, factor_rows=variable.factor_rows and BATCH) for variable in spec.variables]
    counted = bytes_of_a_step(monkeypatch, module, strategy, cluster)
    check_links(counted, replace(spec, variables=tuple(measured)), strategy, cluster)


@pytest.mark.parametrize("numbers", [None, "recorded", "held"])
def test_trials_send_factors(numbers: str | None) -> None:
    cluster = star_cluster(nodes=2, workers=1)
    if numbers is not None:
        cluster = replace(cluster, nodes=tuple(replace(node, pace=Pace(0.0, 0.02, numbers)) for node in cluster.nodes))
    engine = engine_named("pytorch")
    captured = profile(capture(build_task("mlp", framework="pytorch")))
    session = engine.local_session(captured, cluster)
    losses = []
    for way in (AllReduce(0), WAYS["all to all"]):
        step = session.realize(strategy_of(captured.spec, cluster, way))
        losses.append([step() for _ in range(4)])
        first, second = (step.values(replica) for replica in range(2))
        assert all((first[name] == second[name]).all() for name in first)
        step.close()
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_taps_end_with_their_removal() -> None:
    layer = nn.Linear(3, 2)
    taps = FactorTaps(layer, [layer.weight])
    layer(torch.ones(4, 3)).sum().backward()
    layer.eval()(torch.ones(4, 3))  # without a backward pass
    taps.remove()
    layer(torch.ones(4, 3)).sum().backward()
    assert len(taps.take(layer.weight).left) == 4
    assert len(taps.take(layer.weight).left) == 0

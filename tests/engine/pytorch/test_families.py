"""Models of torchvision and transformers, captured, take a step under random strategies like one process."""

from __future__ import annotations

import random
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import nn

from autosync.engine.core.registry import engine_named
from autosync.engine.pytorch.capture import CapturedModule, capture
from autosync.engine.pytorch.task import ModuleTask, build_task
from tests.cases import rack_cluster, star_cluster
from tests.engine.pytorch import families
from tests.engine.pytorch.families import FAMILIES, LANGUAGE
from tests.engine.pytorch.models import WIDE

CLUSTERS = star_cluster(nodes=3, workers=1), rack_cluster()

BOUND, FLOAT32_BOUND = 1e-9, 1e-5
"""The largest absolute difference, and the largest relative one where a normalization computes in float32."""

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        find_spec("torchvision") is None or find_spec("transformers") is None,
        reason="torchvision and transformers of the extra `families` are not installed",
    ),
]


def gradients(task: ModuleTask, number: int, of: int = 1) -> list[torch.Tensor]:
    """The gradients of a replica's batch `number`, or those of the joint batch of `of` replicas from there on."""
    replica = task.fresh()
    parts = [replica.batch_of(number + further) for further in range(of)]
    inputs, targets = (join(*side) for side in zip(*parts, strict=True))
    replica.loss_on((inputs, targets)).backward()
    return [parameter.grad for parameter in replica.parameters.values() if parameter.grad is not None]


def join(*parts: torch.Tensor | dict[str, torch.Tensor]) -> torch.Tensor | dict[str, torch.Tensor]:
    if isinstance(parts[0], dict):
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return torch.cat(parts)


def updated(task: ModuleTask, means: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The parameters after a step with the gradients `means`."""
    reference = task.fresh()
    for parameter, mean in zip(reference.parameters.values(), means, strict=True):
        parameter.grad = mean
    reference.optimizer.step()
    return {name: parameter.detach() for name, parameter in reference.parameters.items()}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_step_under_random_strategies_is_that_of_one_process(name: str) -> None:
    task, engine = build_task(f"{families.__name__}:{name}"), engine_named("pytorch")
    captured = CapturedModule.from_bytes(capture(task).to_bytes())  # as worker processes get it
    assert [variable.name for variable in captured.spec.variables] == list(task.parameters)
    has_batch_norm = any(isinstance(part, nn.BatchNorm2d) for part in task.module.modules())
    for seed, cluster in enumerate(CLUSTERS):
        rng = random.Random(f"{name} {seed}")
        replicas = len(cluster.replica_devices)
        engine.use_logical_devices(replicas)
        of_replicas = zip(*(gradients(task, replica) for replica in range(replicas)), strict=True)
        means = [torch.stack(part).mean(0) for part in of_replicas]
        if not has_batch_norm:  # batch normalization takes statistics of each replica's examples, as under DDP
            whole = gradients(task, 0, replicas)
            for mean, gradient in zip(means, whole, strict=True):
                scale = float(gradient.abs().max())
                torch.testing.assert_close(mean, gradient, rtol=0, atol=FLOAT32_BOUND * scale + BOUND)
        expected = updated(task, means)
        step = engine.local_session(captured, cluster).realize(WIDE.bind(captured.spec, cluster).sample(rng))
        step()
        values = [step.values(replica) for replica in range(replicas)]
        step.close()
        for variable, value in expected.items():
            np.testing.assert_allclose(values[0][variable], value.numpy(), rtol=0, atol=BOUND, err_msg=variable)
            assert all(np.array_equal(values[0][variable], replica[variable]) for replica in values), variable
        assert any(not np.array_equal(value.numpy(), captured.values[variable]) for variable, value in expected.items())


def test_there_are_ten_families_of_images_and_words() -> None:
    assert len(FAMILIES) >= 20
    assert len(LANGUAGE) >= 6

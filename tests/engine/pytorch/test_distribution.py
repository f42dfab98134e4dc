"""The user's own training loop takes strategies of the engine only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

import autosync.torch
from autosync.baselines import BASELINES
from autosync.baselines.ddp import under_ddp
from autosync.engine.pytorch.distribution import model_of
from autosync.errors import SpecError
from autosync.spec import DDPSettings
from tests.cases import local_cluster


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_strategy_of_ddp_is_refused_with_the_way_to_export_it() -> None:
    module = torch.nn.Linear(3, 2)
    model = model_of(module, ["bias", "weight"])
    strategy = under_ddp(model, local_cluster(1), DDPSettings((2.0,), static_graph=True))
    with pytest.raises(SpecError, match=r"autosync export STRATEGY --to ddp.*\(bucket_cap_mb=2, static_graph=True\)"):
        autosync.torch.distribute(module, strategy)


@pytest.mark.usefixtures("alone")
def test_a_strategy_of_another_model_is_refused_as_such() -> None:
    small, large = torch.nn.Linear(3, 2), torch.nn.Sequential(torch.nn.Linear(3, 2))
    cluster = local_cluster(1)
    strategy = BASELINES["all_reduce_25mb"](model_of(small, ["bias", "weight"]), cluster)
    with pytest.raises(
        SpecError, match=r"another model's: it decides variable 'weight', which .* variable '0\.weight'"
    ):
        autosync.torch.distribute(large, strategy)

"""Writes a strategy as a Python file for Horovod. It has not been run, because tests lack Horovod."""

from __future__ import annotations

import pprint
from collections.abc import Iterator

from autosync.engine.pytorch.obstacles import buckets_of, obstacles_of_variables, refuse_first
from autosync.spec import Cast, Strategy

FILE = '''"""Horovod with the buckets of the strategy {digest} of autosync.

    from {module} import start, wrap

    start(model)                        # instead of hvd.init(), whose fusion threshold it sets
    optimizer = wrap(model, optimizer)  # instead of hvd.DistributedOptimizer
"""

import os
from typing import Any

import horovod.torch as hvd
from torch.nn import Module
from torch.optim import Optimizer

GROUPS: list[list[str]] = {groups}


def start(module: Module) -> None:
    """Initialize Horovod with a fusion buffer that holds each group, and keep the groups apart."""
    named = dict(module.named_parameters())
    sizes = [sum(named[name].numel() * named[name].element_size() for name in group) for group in GROUPS]
    os.environ["HOROVOD_FUSION_THRESHOLD"] = str(max(sizes, default=0))  # bytes
    os.environ["HOROVOD_DISABLE_GROUP_FUSION"] = "1"
    os.environ["HOROVOD_AUTOTUNE"] = "0"
    hvd.init()


def wrap(module: Module, optimizer: Optimizer, **more: Any) -> Optimizer:
    """The optimizer in Horovod's. `more` are further arguments, such as backward_passes_per_step.

    A parameter in no group is reduced alone.
    """
    named = dict(module.named_parameters())
    hvd.broadcast_parameters(module.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return hvd.DistributedOptimizer(
        optimizer,
        named_parameters=named.items(),
        compression=hvd.Compression.{compression},
        groups=[[named[name] for name in group] for group in GROUPS]{none},
        **more,
    )
'''


def text_for_horovod(strategy: Strategy, module: str) -> str:
    """The text of a Python file, imported as `module`. Raises `SpecError`, which names the first part that Horovod
    cannot express."""
    refuse_first("Horovod", _obstacles(strategy))
    groups = [bucket for bucket in buckets_of(strategy) if len(bucket) > 1]
    compressed = any(shard.compressor is not None for _, _, shard in strategy.shards())
    return FILE.format(
        digest=strategy.digest,
        module=module,
        groups=pprint.pformat(groups, width=110, compact=True),
        compression="fp16" if compressed else "none",
        none="" if groups else " or None",
    )


def _obstacles(strategy: Strategy) -> Iterator[str]:
    """Horovod sums by rings, or as the library below it does. It sends the scales of fp16 nowhere, but adds in fp16."""
    yield from obstacles_of_variables(strategy, "Horovod", ("collective", "ring"), (Cast("fp16"),))
    plain = [decision.variable for decision, _, shard in strategy.shards() if shard.compressor is None]
    if 0 < len(plain) < len(strategy.variables):
        yield f"variable {plain[0]!r} is not compressed but others are, and Horovod compresses all or none"
    if strategy.ddp is not None and strategy.ddp.zero_redundancy_optimizer:
        yield "ZeroRedundancyOptimizer wraps the optimizer, and Horovod updates all parameters on all ranks"

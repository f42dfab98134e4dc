"""PyTorch's ZeroRedundancyOptimizer around an optimizer: each rank updates some parameters, and then broadcasts them.

See Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, stage 1.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from typing import Any

import torch
from torch.distributed.distributed_c10d import GroupMember, _world
from torch.distributed.optim import ZeroRedundancyOptimizer

from autosync.errors import SpecError

_CONSTRUCTION = threading.Lock()
"""Held while a group is PyTorch's default group, because the ranks of tests are threads of one process."""


def shard_optimizer(optimizer: torch.optim.Optimizer, **arguments: Any) -> ZeroRedundancyOptimizer:
    """A ZeroRedundancyOptimizer with the class, the settings and the state of `optimizer`, which it replaces."""
    accepted = inspect.signature(type(optimizer)).parameters.values()
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in accepted)
    names = {parameter.name for parameter in accepted}
    defaults = {name: value for name, value in optimizer.defaults.items() if takes_any or name in names}
    groups = [dict(group) for group in optimizer.param_groups]
    sharded = ZeroRedundancyOptimizer(groups, optimizer_class=type(optimizer), **arguments, **defaults)
    own = {parameter for group in sharded.optim.param_groups for parameter in group["params"]}
    sharded.optim.state.update({held: state for held, state in optimizer.state.items() if held in own})
    return sharded


def shard_optimizer_on(
    process_group: Any, optimizer: torch.optim.Optimizer, **arguments: Any
) -> ZeroRedundancyOptimizer:
    """`shard_optimizer` on a group that PyTorch's `new_group` did not make. Raises `SpecError`."""
    _world.pg_group_ranks[process_group] = {rank: rank for rank in range(process_group.size())}
    with _CONSTRUCTION:
        before, GroupMember.WORLD = GroupMember.WORLD, process_group
        try:
            sharded = shard_optimizer(optimizer, process_group=process_group, **arguments)
        except (TypeError, ValueError, AttributeError) as error:
            del _world.pg_group_ranks[process_group]
            raise SpecError(
                f"ZeroRedundancyOptimizer cannot wrap the optimizer {type(optimizer).__name__} ({error}); use an "
                "optimizer of torch.optim, or a strategy without ZeroRedundancyOptimizer."
            ) from None
        finally:
            GroupMember.WORLD = before
    weakref.finalize(sharded, _world.pg_group_ranks.pop, process_group, None)
    return sharded


def local_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer that keeps the state of this rank's parameters: under ZeroRedundancyOptimizer, the wrapped one."""
    return optimizer.optim if isinstance(optimizer, ZeroRedundancyOptimizer) else optimizer

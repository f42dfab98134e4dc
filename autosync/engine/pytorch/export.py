"""Writes a strategy as a file of plain PyTorch, for users who stay with DistributedDataParallel."""

from __future__ import annotations

import inspect
import pprint
from collections.abc import Iterator
from typing import Any

from autosync.engine.pytorch.compressed_buckets import compress_buckets
from autosync.engine.pytorch.obstacles import obstacles_of_variables, refuse_first
from autosync.engine.pytorch.settled import check, expectations, variables_in_bf16
from autosync.engine.pytorch.zero import shard_optimizer
from autosync.spec import Strategy

FILE = '''"""DistributedDataParallel with the settings of the strategy {digest} of autosync.

    from {module} import verify, wrap

    # Once torch.distributed is initialized{before}:
    {wrapped} = wrap({given})
    ...            # at least five steps of training
    verify(model)  # raises RuntimeError if the settings have no effect
"""

{imports}

ARGUMENTS: dict[str, Any] = {arguments}

EXPECTED: dict[str, Any] = {expected}


{wrap}


def verify(ddp: DistributedDataParallel) -> None:
    """Raise `RuntimeError` if `ddp` has other settings or buckets than the strategy, after at least five steps."""
    check(ddp, [name for name, value in ddp.module.named_parameters() if value.requires_grad], EXPECTED)


{functions}'''

WRAP = '''def wrap(module: Module, **more: Any) -> DistributedDataParallel:
    """`module` in DistributedDataParallel. `more` are further arguments, such as device_ids."""
    ddp = DistributedDataParallel(module, **ARGUMENTS, **more){compress}
    return ddp'''

ZERO_WRAP = '''def wrap(
    module: Module, optimizer: torch.optim.Optimizer, **more: Any
) -> tuple[DistributedDataParallel, ZeroRedundancyOptimizer]:
    """`module` in DistributedDataParallel, and the optimizer of its parameters in ZeroRedundancyOptimizer.

    `more` are further arguments of DistributedDataParallel, such as device_ids.
    """
    ddp = DistributedDataParallel(module, **ARGUMENTS, **more){compress}
    return ddp, shard_optimizer(optimizer{zero_arguments})'''

COMPRESS = """
    named = dict(module.named_parameters())
    compress_buckets(ddp, [named[name] for name in COMPRESSED])"""

IMPORTS = (
    "from typing import Any",
    "from torch.nn import Module",
    "from torch.nn.parallel import DistributedDataParallel",
)
COMPRESS_IMPORTS = (
    "from collections.abc import Iterable",
    "import torch",
    "from torch.distributed import GradBucket",
    "from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook",
)
ZERO_IMPORTS = ("import inspect", "import torch", "from torch.distributed.optim import ZeroRedundancyOptimizer")


def ddp_file(strategy: Strategy, module: str) -> str:
    """The text of a Python file, imported as `module`, that wraps a model as `strategy` says; it needs PyTorch alone.

    Raises `SpecError`, which names the first part that DistributedDataParallel cannot express.
    """
    refuse_first("DistributedDataParallel", obstacles(strategy))
    settings = strategy.ddp
    assert settings is not None
    compressed, has_zero = variables_in_bf16(strategy), settings.zero_redundancy_optimizer
    imports, constants, functions = {*IMPORTS}, [str(settings.arguments)], [inspect.getsource(check)]
    if compressed:
        imports |= {*COMPRESS_IMPORTS}
        constants.append(f"COMPRESSED = {_pretty(compressed)}")
        functions.append(inspect.getsource(compress_buckets))
    if has_zero:
        imports |= {*ZERO_IMPORTS}
        functions.append(inspect.getsource(shard_optimizer))
    library, torches = (
        [line for line in sorted(imports, key=_order) if (" torch" in line) == of] for of in (False, True)
    )
    return FILE.format(
        digest=strategy.digest,
        module=module,
        before=", and before a learning-rate scheduler takes the optimizer" if has_zero else "",
        wrapped="model, optimizer" if has_zero else "model",
        given="model, optimizer" if has_zero else "model",
        imports="\n".join([*library, "", *torches]),
        arguments="\n\n".join(constants),
        expected=_pretty(expectations(strategy)),
        wrap=(ZERO_WRAP if has_zero else WRAP).format(
            compress=COMPRESS if compressed else "",
            zero_arguments="".join(f", {name}={value}" for name, value in settings.optimizer_arguments.items()),
        ),
        functions="\n\n".join(functions),
    )


def _pretty(value: Any) -> str:
    return pprint.pformat(value, width=110, compact=True, sort_dicts=False)


def _order(line: str) -> tuple[bool, str]:
    """Imports of modules come before those of names."""
    return line.startswith("from "), line


def obstacles(strategy: Strategy) -> Iterator[str]:
    """The parts of `strategy` that DistributedDataParallel cannot express, each as a clause."""
    if strategy.ddp is None:
        yield from obstacles_of_variables(strategy, "PyTorch", ("collective",))
        yield "it states buckets of autosync's engine, but DistributedDataParallel fills its own up to a size"

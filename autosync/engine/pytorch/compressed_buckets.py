"""Gradients under DistributedDataParallel that travel in bfloat16, by a communication hook."""

# Annotations are values in this module, because DistributedDataParallel compares those of a hook with its own classes.

from collections.abc import Iterable
from typing import Any

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel


def compress_buckets(ddp: DistributedDataParallel, parameters: Iterable[torch.nn.Parameter]) -> None:
    """Have `ddp` send and add in bfloat16 the buckets that hold gradients of `parameters` only."""
    chosen = set(parameters)

    # DDP refuses PyTorch's own hook without NCCL, but gloo adds numbers in bfloat16, too.
    def compress_chosen(process_group: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        hook = bf16_compress_hook if chosen.issuperset(bucket.parameters()) else allreduce_hook
        return hook(process_group, bucket)

    ddp.register_comm_hook(ddp.process_group, compress_chosen)

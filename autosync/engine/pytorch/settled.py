"""The settings and the buckets with which DistributedDataParallel runs, compared with a strategy's."""

from __future__ import annotations

from typing import Any

from torch.nn.parallel import DistributedDataParallel

from autosync.engine.pytorch.obstacles import buckets_of
from autosync.spec import Strategy


def has_settled(ddp: DistributedDataParallel) -> bool:
    """Whether DDP has made its final buckets: it does so in the second step, or in the third with `static_graph`."""
    return bool(ddp._get_ddp_logging_data().get("has_rebuilt_buckets"))


def variables_in_bf16(strategy: Strategy) -> list[str]:
    """The names of the variables whose gradients travel in bfloat16."""
    return [decision.variable for decision, _, shard in strategy.shards() if shard.compressor is not None]


def expectations(strategy: Strategy) -> dict[str, Any]:
    """The settings of a strategy that DDP carries out, by DDP's names, and the names in each bucket, sorted."""
    settings = strategy.ddp
    assert settings is not None
    return {
        "bucket_cap_bytes": max(settings.cap_bytes),
        "gradient_as_bucket_view": settings.gradient_as_bucket_view,
        "static_graph": settings.static_graph,
        "compresses": bool(variables_in_bf16(strategy)),
        "buckets": sorted(map(sorted, buckets_of(strategy))),
    }


def check(ddp: DistributedDataParallel, names: list[str], expected: dict[str, Any]) -> None:
    """Compare the settings of `ddp`, whose parameters are called `names`, with `expected`. Raises `RuntimeError`."""
    told = ddp._get_ddp_logging_data()
    text = told.get("rebuilt_per_bucket_param_indices", "")  # numbers of parameters, and a comma between buckets
    if not text:
        raise RuntimeError("DistributedDataParallel has not made its buckets yet; it does so in the first five steps.")
    running = {
        "bucket_cap_bytes": told["bucket_cap_bytes"],
        "gradient_as_bucket_view": bool(told["gradient_as_bucket_view"]),
        "static_graph": bool(told.get("static_graph", False)),
        "compresses": "compress" in told.get("comm_hook", ""),
        "buckets": sorted(sorted(names[int(number)] for number in bucket.split()) for bucket in text.split(",")),
    }
    for name, value in running.items():
        if value != expected[name]:
            raise RuntimeError(f"DistributedDataParallel runs with {name} {value}, and not with {expected[name]}.")

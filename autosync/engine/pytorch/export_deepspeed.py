"""Writes a strategy as a part of DeepSpeed's JSON configuration. It has not been run, because tests lack DeepSpeed.

DeepSpeed counts bucket sizes in elements. Stage 0 reduces all gradients after the backward pass. Stage 1 reduces them
during the backward pass, in buckets of one size, and each rank updates a share, as with ZeroRedundancyOptimizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from autosync.engine.pytorch.obstacles import buckets_of, obstacles_of_variables, refuse_first
from autosync.spec import Cast, Strategy

BYTES_PER_ELEMENT = 4
"""DeepSpeed counts elements, and a strategy file does not name types: gradients are assumed to be float32."""

WHOLE_MODEL = 500_000_000
"""Elements of DeepSpeed's default buckets, which hold most models as a whole."""


def text_for_deepspeed(strategy: Strategy) -> str:
    """The text of a JSON object to merge into the user's configuration. Raises `SpecError`, which names the first part
    that DeepSpeed cannot express."""
    refuse_first("DeepSpeed", _obstacles(strategy))
    zero: dict[str, Any] = {"stage": 0}
    settings = strategy.ddp
    if settings is not None and settings.zero_redundancy_optimizer:
        elements = settings.cap_bytes[0] // BYTES_PER_ELEMENT
        zero = {
            "stage": 1,
            "reduce_bucket_size": max(1, elements),
            "allgather_bucket_size": WHOLE_MODEL,
            "overlap_comm": True,
            "contiguous_gradients": True,
        }
    document: dict[str, Any] = {"zero_optimization": zero}
    if zero["stage"]:
        document["zero_allow_untested_optimizer"] = True  # otherwise DeepSpeed takes its own optimizers and Adam only
    if any(shard.compressor is not None for _, _, shard in strategy.shards()):
        document["communication_data_type"] = "bf16"
    return json.dumps(document, indent=2) + "\n"


def _obstacles(strategy: Strategy) -> Iterator[str]:
    yield from obstacles_of_variables(strategy, "DeepSpeed", ("collective",), (Cast("bf16"),))
    compressed = [decision.variable for decision, _, shard in strategy.shards() if shard.compressor is not None]
    plain = [decision.variable for decision, _, shard in strategy.shards() if shard.compressor is None]
    if compressed and plain:
        yield f"variable {plain[0]!r} is not compressed but others are, and DeepSpeed sends one type"
    settings = strategy.ddp
    if settings is None or not settings.zero_redundancy_optimizer:
        buckets = buckets_of(strategy)
        if len(buckets) > 1:
            yield (
                f"variable {buckets[1][0]!r} is in a second bucket, and without ZeroRedundancyOptimizer DeepSpeed "
                "reduces all gradients together after the backward pass"
            )
    elif len(settings.cap_bytes) > 1:
        yield f"its buckets have {len(settings.cap_bytes)} caps ({settings.in_words}), and DeepSpeed takes one"
    elif not settings.parameters_as_bucket_view:
        yield "each parameter is broadcast alone, and DeepSpeed gathers whole shares (parameters_as_bucket_view)"

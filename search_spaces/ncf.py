"""The space for recommendation models: embeddings with nearly all parameters, and a small dense tower."""

from autosync.space import (
    GPU_ALGORITHMS,
    LOSSLESS,
    PLACED_ALGORITHMS,
    Cut,
    PartBytes,
    PerServer,
    Rule,
    Servers,
    Space,
    VariableFilter,
)

SPACE = Space(
    name="ncf",
    description="embeddings cut finely over servers or all-reduced, with every mixture; the dense tower whole",
    rules=(
        Rule(
            where=VariableFilter(named=("*embedding*", "*user*", "*item*"), over_bytes=16_384),
            servers=Servers(),
            all_reduce=True,
            algorithms=PLACED_ALGORITHMS,
            gpu_algorithms=GPU_ALGORITHMS,
            compressors=LOSSLESS,
            cut=Cut(
                counts=(1, 2, 3, PerServer(1), PerServer(2), PerServer(4), PartBytes(1_024_000), PartBytes(4_096_000)),
                min_shard_bytes=16_384,
            ),
            mixed_shards=True,
        ),
        Rule(
            where=VariableFilter(sparse=True),
            servers=Servers(),
            all_reduce=True,
            cut=Cut(counts=(1, PerServer(1)), min_shard_bytes=16_384),
        ),
        Rule(
            servers=Servers(local_copy=(False, True)),
            all_reduce=True,
            algorithms=PLACED_ALGORITHMS,
            gpu_algorithms=GPU_ALGORITHMS,
            compressors=LOSSLESS,
        ),
    ),
    max_buckets=16,
)

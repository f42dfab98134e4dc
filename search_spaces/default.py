"""The default space, for any model: every option that does not change the training result."""

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
    name="default",
    description="any lossless choice: parameter servers or all-reduce, whole or cut, mixed at will",
    rules=(
        Rule(
            where=VariableFilter(sparse=True),
            servers=Servers(),
            all_reduce=True,
            cut=Cut(counts=(1, 2, 3, 4, PerServer(1), PerServer(2), PartBytes(4_096_000))),
        ),
        Rule(
            where=VariableFilter(over_bytes=32_768),
            servers=Servers(local_copy=(False, True)),
            all_reduce=True,
            algorithms=PLACED_ALGORITHMS,
            gpu_algorithms=GPU_ALGORITHMS,
            compressors=LOSSLESS,
            cut=Cut(
                counts=(1, 2, 3, 4, PerServer(1), PerServer(2), PartBytes(4_096_000)),
                axes="every",
                min_shard_bytes=16_384,
            ),
            mixed_shards=True,
        ),
        Rule(
            servers=Servers(local_copy=(False, True)),
            all_reduce=True,
            algorithms=PLACED_ALGORITHMS,
            gpu_algorithms=GPU_ALGORITHMS,
            compressors=LOSSLESS,
        ),
    ),
    max_buckets=128,
)

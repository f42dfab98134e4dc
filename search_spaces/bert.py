"""The space for BERT and other transformers: big embeddings and kernels, and many small biases and norms."""

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
    name="bert",
    description="embeddings and kernels on servers or all-reduced, cut by servers or bytes; small variables whole",
    rules=(
        Rule(
            where=VariableFilter(sparse=True),
            servers=Servers(),
            all_reduce=True,
            cut=Cut(counts=(1, 2, PerServer(1), PerServer(2), PartBytes(4_096_000))),
        ),
        Rule(
            where=VariableFilter(named=("*embedding*",), over_bytes=65_536),
            servers=Servers(local_copy=(False, True)),
            all_reduce=True,
            algorithms=PLACED_ALGORITHMS,
            gpu_algorithms=GPU_ALGORITHMS,
            compressors=LOSSLESS,
            cut=Cut(counts=(1, 2, PerServer(1), PerServer(2), PartBytes(4_096_000)), min_shard_bytes=16_384),
            mixed_shards=True,
        ),
        Rule(
            where=VariableFilter(over_bytes=32_768),
            servers=Servers(local_copy=(False, True)),
            all_reduce=True,
            algorithms=PLACED_ALGORITHMS,
            gpu_algorithms=GPU_ALGORITHMS,
            compressors=LOSSLESS,
            cut=Cut(counts=(1, 2, PerServer(1), PartBytes(4_096_000)), min_shard_bytes=16_384),
        ),
        Rule(
            servers=Servers(),
            all_reduce=True,
            algorithms=PLACED_ALGORITHMS,
            gpu_algorithms=GPU_ALGORITHMS,
            compressors=LOSSLESS,
        ),
    ),
    max_buckets=32,
)

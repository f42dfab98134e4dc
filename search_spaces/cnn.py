"""The space for convolutional networks: a few huge dense layers (VGG) or many small kernels (ResNet, DenseNet)."""

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
    name="cnn",
    description="big kernels on servers or all-reduced, cut along any axis; small variables whole",
    rules=(
        Rule(
            where=VariableFilter(over_bytes=1_048_576),
            servers=Servers(local_copy=(False, True)),
            all_reduce=True,
            algorithms=PLACED_ALGORITHMS,
            gpu_algorithms=GPU_ALGORITHMS,
            compressors=LOSSLESS,
            cut=Cut(
                counts=(1, 2, PerServer(1), PerServer(2), PartBytes(4_096_000)), axes="every", min_shard_bytes=65_536
            ),
            mixed_shards=True,
        ),
        Rule(
            where=VariableFilter(over_bytes=65_536),
            servers=Servers(local_copy=(False, True)),
            all_reduce=True,
            algorithms=PLACED_ALGORITHMS,
            gpu_algorithms=GPU_ALGORITHMS,
            compressors=LOSSLESS,
            cut=Cut(counts=(1, 2, PerServer(1)), axes="every", min_shard_bytes=16_384),
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

"""The space of compressed gradients, which change training: a shorter step alone does not make a strategy better."""

from autosync.space import (
    ALGORITHMS,
    Cast,
    Cut,
    PerServer,
    PowerSGD,
    Rule,
    Servers,
    Space,
    SufficientFactors,
    TopK,
    VariableFilter,
)

SPACE = Space(
    name="lossy",
    description="changes the statistics: 16 bits, top-k or PowerSGD for big gradients, on servers or all-reduced",
    rules=(
        Rule(
            where=VariableFilter(sparse=True),
            servers=Servers(),
            all_reduce=True,
            cut=Cut(counts=(1, PerServer(1))),
            compressors=(None, Cast("bf16"), Cast("fp16")),
        ),
        Rule(
            where=VariableFilter(over_bytes=65_536),
            servers=Servers(local_copy=(False, True)),
            all_reduce=True,
            cut=Cut(counts=(1, 2, PerServer(1)), min_shard_bytes=16_384),
            algorithms=ALGORITHMS,
            compressors=(
                None,
                SufficientFactors(),
                Cast("bf16"),
                Cast("fp16"),
                TopK(0.01),
                TopK(0.01, "star"),
                TopK(0.01, "var"),
                PowerSGD(2),
                PowerSGD(4),
            ),
        ),
        Rule(
            servers=Servers(),
            all_reduce=True,
            algorithms=ALGORITHMS,
            compressors=(None, Cast("bf16"), Cast("fp16"), PowerSGD(2), PowerSGD(4)),
        ),
    ),
    max_buckets=32,
    changes_statistics=True,
)

"""The space `ddp`, and its strategies with gradients in bfloat16, which change the numbers of training."""

from autosync.space import EVERYTHING, Cast, Rule, Space

SPACE = Space(
    name="ddp_lossy",
    description="changes the statistics: settings of PyTorch's DistributedDataParallel, and gradients in bfloat16",
    rules=(Rule(where=EVERYTHING, all_reduce=True, algorithms=("collective",), compressors=(None, Cast("bf16"))),),
    max_buckets=1024,
    by_ddp=True,
    changes_statistics=True,
)

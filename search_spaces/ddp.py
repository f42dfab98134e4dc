"""The space for users who stay with PyTorch's DistributedDataParallel: the sizes of its buckets, as views or not."""

from autosync.space import EVERYTHING, Rule, Space

SPACE = Space(
    name="ddp",
    description="caps of PyTorch's DistributedDataParallel itself, with gradients as views of buckets or not",
    rules=(Rule(where=EVERYTHING, all_reduce=True, algorithms=("collective",)),),
    max_buckets=1024,
    by_ddp=True,
)

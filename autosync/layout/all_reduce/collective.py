"""Traffic of TensorFlow's collective, and of NCCL's for large messages: the traffic of a ring."""

from autosync.layout.all_reduce import LaidOut
from autosync.layout.all_reduce.ring import ring_exchange
from autosync.spec import ClusterSpec


def on_gpus(cluster: ClusterSpec) -> bool:
    """Whether every replica runs on a GPU, so that NCCL executes the collective."""
    return all(device.kind == "gpu" for device in cluster.replica_devices)


def _of_one_kind(cluster: ClusterSpec) -> bool:
    """Whether there are several replicas, all on devices of one kind."""
    return len(cluster.replica_devices) > 1 and len({device.kind for device in cluster.replica_devices}) == 1


LAID_OUT = LaidOut(closed_form=ring_exchange, differs=_of_one_kind)

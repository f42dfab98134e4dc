"""Starts a TensorFlow server in every worker, and connects the client to all of them."""

import gc
import math
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from autosync.engine.core.proxies import bypass_proxies
from autosync.engine.tensorflow.listening import listening_at
from autosync.errors import ClusterError

OWN_THREADS = "TF_NUM_INTRAOP_THREADS"
"""The environment variable that TensorFlow reads if a server's configuration sets no number of threads."""


def start_server(
    address: str, cores: float | None = None, paced_replicas: int = 0, peers: Sequence[str] = ()
) -> tuple[Any, str]:
    """Start this worker's TensorFlow server on a free port of `address`; return the server and its `address:port`.

    An operation uses as many threads as the worker has `cores` (None: all cores of the machine). Each of the worker's
    `paced_replicas` occupies a thread while it waits, so the server gets one more for each.
    `peers` are the addresses of the other workers and the client, without ports; connections to them bypass proxies.
    Like every TensorFlow server, the server speaks unencrypted gRPC to any client that can reach the port. Raises
    `ClusterError` if `address` is not an address of this machine.
    """
    _check_is_here(address)

    bypass_proxies([address, *peers])
    _read_in_large_pieces()
    threads = _threads(cores, paced_replicas)
    with listening_at(address, _libraries()):
        server = tf.distribute.Server(
            {"worker": [f"{address}:0"]}, job_name="worker", task_index=0, protocol="grpc", config=threads
        )
    port = server.target.rpartition(":")[2]
    return server, f"{address}:{port}"


def connect(addresses: Sequence[str], host: str = "127.0.0.1", again: bool = False) -> None:
    """Make this process the client of the servers at `addresses`, which become tasks 0, 1, ... of job `worker`.

    `host` is this process's own address. All workers must be able to reach it, because a worker fetches its inputs from
    the client. By default TensorFlow would make each worker look for the client on the worker's own machine. A process
    that is already connected must pass `again`. TensorFlow keeps 42 MB of each connection, and connecting again makes
    two connections.
    """
    # Connecting begins a new context. If Python collects a function of the old context later, TensorFlow deletes the
    # function in the new context, which does not know it, and the op that then runs on a worker fails.
    gc.collect()
    bypass_proxies([host, *(address.rpartition(":")[0] for address in addresses)])
    _read_in_large_pieces()
    _without_graph_optimizer()
    # A worker sets up collectives when its first context begins. If the context of an earlier connection still exists,
    # the worker uses the collectives of that context and crashes once they are gone. So the client leaves all workers
    # first, by connecting to a cluster without any.
    for workers in ({}, {"worker": list(addresses)}) if again else ({"worker": list(addresses)},):
        cluster = tf.train.ClusterSpec({**workers, "client": [f"{host}:{_free_port(host)}"]})
        with listening_at(host, _libraries()):
            tf.config.experimental_connect_to_cluster(cluster, job_name="client", task_index=0, protocol="grpc")
            tf.config.list_logical_devices()  # starts the client's server, which the first connection delays


def _check_is_here(address: str) -> None:
    """Raise `ClusterError` if no server can listen at `address`, which Ray reports as this node's address."""
    try:
        _free_port(address)
    except OSError as error:
        raise ClusterError(
            f"A worker's server listens at its node's address, but no interface of this node has {address!r} "
            f"({error.strerror}); start Ray on the node with `--node-ip-address` and an address of the node."
        ) from None


def _libraries() -> Path:
    """The folder of TensorFlow's shared libraries."""
    return Path(tf.sysconfig.get_lib())


def _threads(cores: float | None, paced_replicas: int = 0) -> Any:
    """A configuration with threads for `cores` cores, which sleep when idle.

    By default TensorFlow starts one thread for every core of the machine, and each spins before it sleeps. With four
    workers on two cores, a step of bert-mini took 25 ms of processor time a worker, and 20 ms with one thread. A number
    set by the user is kept.
    """
    config = tf.compat.v1.ConfigProto()
    config.experimental.disable_thread_spinning = True
    if cores is not None and OWN_THREADS not in os.environ:
        config.intra_op_parallelism_threads = max(1, int(cores))
    if paced_replicas:
        config.inter_op_parallelism_threads = _threads_of_paced(cores, paced_replicas)
    return config


def _threads_of_paced(cores: float | None, replicas: int) -> int:
    """Inter-op threads for a process with paced replicas: one per core, one per waiting replica, and one spare."""
    return math.ceil(cores or os.cpu_count() or 1) + replicas + 1


def _read_in_large_pieces() -> None:
    """Let gRPC wait for more of a message before it wakes a thread. gRPC reads the variable when it is first used.

    By default nearly every segment that arrives wakes a thread. In interleaved runs over 200 Mbit/s, a ring all-reduce
    of 16 MB took about three times as much processor time without the setting. A setting of the user is kept.
    """
    os.environ.setdefault("GRPC_EXPERIMENTS", "tcp_frame_size_tuning,tcp_rcv_lowat")


def _free_port(host: str) -> int:
    """Return a free port of `host`, because TensorFlow cannot choose one for a client."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


def use_logical_devices(count: int, paced_replicas: int = 0) -> None:
    """Split this process's CPU into `count` devices, to run a whole cluster in one process. The devices share threads.

    Each of `paced_replicas` occupies a thread while it waits, so there is one more for each.
    Raises `ClusterError` if this process has already used TensorFlow with another number of devices.
    """
    _without_graph_optimizer()
    cpu = tf.config.list_physical_devices("CPU")[0]
    have = tf.config.get_logical_device_configuration(cpu)
    if have is None or len(have) < count:
        try:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
            if count > 1 and OWN_THREADS not in os.environ:
                tf.config.threading.set_intra_op_parallelism_threads(max(1, (os.cpu_count() or 1) // count))
            if paced_replicas:
                tf.config.threading.set_inter_op_parallelism_threads(_threads_of_paced(None, paced_replicas))
        except RuntimeError as error:
            raise ClusterError(
                f"A process must ask for its {count} devices before it uses TensorFlow; do so first: {error}"
            ) from None


def _without_graph_optimizer() -> None:
    """Turn the graph optimizer off, because optimizing every strategy's graph would double the cost of a switch."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

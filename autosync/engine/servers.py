"""Processes that take part: a TensorFlow server in every worker, and the client that connects to them all."""

import gc
import math
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autosync.engine.listening import listening_at
from autosync.engine.proxies import bypass_proxies
from autosync.errors import ClusterError

OWN_THREADS = "TF_NUM_INTRAOP_THREADS"
"""The environment variable that TensorFlow reads where a server's configuration names no number of threads."""


def start_server(
    address: str, cores: float | None = None, paced_replicas: int = 0, peers: Sequence[str] = ()
) -> tuple[Any, str]:
    """Start this worker's TensorFlow server on a free port of `address`; the server, and its `address:port`.

    An operation is computed by as many threads as the worker has `cores` to count on (None: all of the machine's).
    Each of its `paced_replicas` keeps a thread while it waits, so that there are as many more.
    `peers` are addresses of the other workers and the client, without ports, which no proxy may stand in front of.
    The server speaks plain gRPC to anyone who can reach the port, as every TensorFlow server does. Raises
    `ClusterError` if `address` is not one of this machine's.
    """
    import tensorflow as tf

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

    `host` is this process' own address. It must be one that all of them reach: a worker fetches from the client what
    it is given, and TensorFlow, left to itself, would tell each to look for the client on its own machine. A process
    that is connected already must say `again`; TensorFlow keeps 42 MB of each connection, and then there are two.
    """
    import tensorflow as tf

    # Connecting begins a new context. A function of the old one that is found to be garbage later is asked for in the
    # new one, which knows no such function, and whatever runs on a worker then fails.
    gc.collect()
    bypass_proxies([host, *(address.rpartition(":")[0] for address in addresses)])
    _read_in_large_pieces()
    _without_graph_optimizer()
    # A worker makes ready for collectives when its first context begins. While that of an earlier connection still
    # lives it does not, but uses what belongs to that one, and crashes once it has gone; so all are left first.
    for workers in ({}, {"worker": list(addresses)}) if again else ({"worker": list(addresses)},):
        cluster = tf.train.ClusterSpec({**workers, "client": [f"{host}:{_free_port(host)}"]})
        with listening_at(host, _libraries()):
            tf.config.experimental_connect_to_cluster(cluster, job_name="client", task_index=0, protocol="grpc")
            tf.config.list_logical_devices()  # starts the client's server, which the first connection puts off


def _check_is_here(address: str) -> None:
    """Raise `ClusterError` if no server can listen at `address`, which Ray says is this node's."""
    try:
        _free_port(address)
    except OSError as error:
        raise ClusterError(
            f"A worker's server listens at its node's address, but no interface of this node has {address!r} "
            f"({error.strerror}); start Ray there with `--node-ip-address` and an address of the node."
        ) from None


def _libraries() -> Path:
    """The folder of TensorFlow's shared libraries."""
    import tensorflow as tf

    return Path(tf.sysconfig.get_lib())


def _threads(cores: float | None, paced_replicas: int = 0) -> Any:
    """Threads for `cores` cores which sleep when they have nothing to do.

    By default TensorFlow starts one for every core of the machine, and each looks busily for work before it
    sleeps: of four workers on two cores a step of bert-mini took 25 ms of processor each, 20 with one thread. A number
    of the user's own is kept.
    """
    import tensorflow as tf

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
    """Let gRPC wait for more of a message before it wakes a thread; it reads the variable when it is first used.

    By default a thread is woken for nearly every segment that arrives: in interleaved runs over 200 Mbit/s a ring
    all-reduce of 16 MB took about three times the processor's time without it. A setting of the user's own is kept.
    """
    os.environ.setdefault("GRPC_EXPERIMENTS", "tcp_frame_size_tuning,tcp_rcv_lowat")


def _free_port(host: str) -> int:
    """Return a free port of `host`; TensorFlow cannot choose one for a client."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


def use_logical_devices(count: int, paced_replicas: int = 0) -> None:
    """Split this process' CPU into `count` devices, to run a whole cluster in one process; they share its threads.

    There is one more for each of `paced_replicas`, which keeps it while it waits.
    Raises `ClusterError` when TensorFlow has already been used here with another number.
    """
    import tensorflow as tf

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
                f"{count} devices in one process must be asked for before TensorFlow is used: {error}"
            ) from None


def _without_graph_optimizer() -> None:
    """Turn the graph optimizer off: to simplify graphs again for every strategy would double the cost of a switch."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

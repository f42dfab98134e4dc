"""Starts the two competitors, with one process per host and one process group per competitor."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from studies.by_hand.peers.host_processes import HostProcesses
from trials.emulate import Host

__all__ = ["start_ddp", "start_mirrored"]

MIRRORED_PORT, DDP_PORT = 23456, 23457
"""Port numbers, the same for all hosts, because every host has a network of its own."""

INTERFACE = "eth0"


@contextmanager
def start_mirrored(hosts: Sequence[Host]) -> Iterator[HostProcesses]:
    """Start a worker of `MultiWorkerMirroredStrategy` in each host."""
    workers = [f"{host.address}:{MIRRORED_PORT}" for host in hosts]
    configs = [
        json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})
        for index in range(len(hosts))
    ]
    environments = [{"TF_CONFIG": config} for config in configs]
    with HostProcesses(hosts, "studies.by_hand.peers.mirrored_member", environments=environments) as crew:
        crew.ask("start")
        yield crew


@contextmanager
def start_ddp(hosts: Sequence[Host]) -> Iterator[HostProcesses]:
    """Start a rank of PyTorch over gloo in each host."""
    environments = [{"GLOO_SOCKET_IFNAME": INTERFACE, "OMP_NUM_THREADS": "1"}] * len(hosts)
    with HostProcesses(hosts, "studies.by_hand.peers.ddp_member", environments=environments) as crew:
        ranks = [
            {"rank": rank, "size": len(hosts), "host": hosts[0].address, "port": DDP_PORT} for rank in range(len(hosts))
        ]
        crew.ask_each("start", ranks)
        yield crew

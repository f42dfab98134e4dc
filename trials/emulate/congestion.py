"""TCP congestion control: one for all nodes, so that only their links tell them apart."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from autosync.errors import ClusterError
from trials.emulate.hosts import Host, start_inside

__all__ = ["agree_on_congestion_control", "congestion_control"]

SETTING = "/proc/sys/net/ipv4/tcp_congestion_control"


def congestion_control(host: Host) -> str:
    """The algorithm that TCP connections made in the host use, such as `cubic`."""
    reading = start_inside(host, ["cat", SETTING], stdout=subprocess.PIPE, within_quota=False)
    said, _ = reading.communicate()
    return str(said.decode().strip())


def agree_on_congestion_control(hosts: Sequence[Host]) -> str:
    """Give every host the first one's algorithm, as most kernels do anyway. Raises `ClusterError` when that fails."""
    wanted, *others = [congestion_control(host) for host in hosts]
    for host, found in zip(hosts[1:], others, strict=True):
        if found != wanted:
            start_inside(host, ["sh", "-c", f"echo {wanted} > {SETTING}"], stderr=subprocess.DEVNULL).wait()
            if congestion_control(host) != wanted:
                raise ClusterError(
                    f"Every node must use the same TCP congestion control, but {hosts[0].node!r} uses {wanted!r} and "
                    f"{host.node!r} {found!r}, which cannot be set here; set it for the whole machine with sysctl."
                )
    return wanted

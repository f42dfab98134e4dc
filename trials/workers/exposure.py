"""Sentences on who can connect to the processes of a trial or a training."""

import ipaddress
from collections.abc import Iterable

TRUSTED = "They ask for no password, so use a network that you trust."


def servers_listen(servers: str, addresses: Iterable[str], is_open: bool, is_emulated: bool = False) -> str:
    """Return a sentence on where an engine's `servers` at `addresses` (`host:port`) listen.

    `is_open` means on all interfaces. An emulated network has no link to this machine's network, so nothing outside can
    connect.
    """
    hosts = list(dict.fromkeys(address.rpartition(":")[0].strip("[]") for address in addresses))
    if is_emulated:
        return f"{servers} listen on the emulated network, which only its own nodes can reach."
    if is_open:
        return f"{servers} listen on all interfaces. {TRUSTED}"
    if all(_is_loopback(host) for host in hosts):
        return f"{servers} listen on {', '.join(hosts)} only, where every user of this machine can connect."
    return f"{servers} listen at the nodes' addresses only. {TRUSTED}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

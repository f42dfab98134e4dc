"""Environment variables that keep connections between nodes away from the user's proxy.

TensorFlow's gRPC sends every connection through `grpc_proxy`, `https_proxy` or `http_proxy`, even a connection to this
machine. A proxy for the internet does not reach the workers, so their addresses are listed as exceptions.
"""

import os
from collections.abc import Iterable, Mapping

LOOPBACK = ("localhost", "127.0.0.1", "::1")

EXCEPTIONS = (("no_proxy", "NO_PROXY"), ("no_grpc_proxy", "NO_GRPC_PROXY"))
"""Names of the lists of exceptions. If the second list is set, gRPC reads only that list."""

EVERY_HOST = "*"
"""A list that stands for all hosts. Most programs honour it, but gRPC does not."""


def bypassing(environment: Mapping[str, str], addresses: Iterable[str]) -> dict[str, str]:
    """Return the variables to add to `environment`, so that `addresses` and this machine are reached directly.

    `addresses` are IP addresses or host names without ports. The user's lists of exceptions are kept and extended.
    Without a proxy the result is empty and `addresses` are not read, because on macOS a list of exceptions alone would
    hide the system's proxy.
    """
    if not any(name.lower().endswith("_proxy") and name.lower() not in _NAMES for name in environment):
        return {}
    addresses = list(addresses)
    added: dict[str, str] = {}
    entries: list[str] = []
    for names in EXCEPTIONS:
        stated = [environment[name] for name in names if environment.get(name)]
        entries = [entry.strip() for value in stated for entry in value.split(",")] or entries
        merged = dict.fromkeys(filter(None, [*entries, *LOOPBACK, *addresses]))
        all_hosts = EVERY_HOST in merged and names == EXCEPTIONS[0]
        added |= dict.fromkeys(names, EVERY_HOST if all_hosts else ",".join(merged))
    return added


def bypass_proxies(addresses: Iterable[str]) -> None:
    """Let this process, and processes it starts from now on, connect to `addresses` directly.

    gRPC reads the variables when it opens a channel, so call this before TensorFlow connects.
    """
    os.environ.update(bypassing(os.environ, addresses))


_NAMES = {name.lower() for names in EXCEPTIONS for name in names}

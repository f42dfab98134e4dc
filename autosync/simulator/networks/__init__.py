"""The networks a learned simulator can be made of, by name. A new one joins by a file and a line here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from autosync.errors import SpecError
from autosync.simulator.networks.linear import linear
from autosync.simulator.networks.network import Member, Network
from autosync.simulator.networks.rnn import rnn

__all__ = ["NETWORKS", "Member", "Network", "network_called"]


def _gat() -> Network:
    from autosync.simulator.networks.gat import gat  # torch_geometric is imported only when it is asked for

    return gat()


NETWORKS: Mapping[str, Callable[[], Network]] = MappingProxyType({"linear": linear, "rnn": rnn, "gat": _gat})


def network_called(name: str) -> Network:
    """The network called `name`. Raises `SpecError`, listing the networks there are."""
    if name not in NETWORKS:
        raise SpecError(f"Unknown network {name!r}. Known: {', '.join(NETWORKS)}.")
    return NETWORKS[name]()

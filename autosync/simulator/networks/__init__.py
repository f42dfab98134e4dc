"""The networks of learned simulators, by name. To add one, add a file and a line here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from autosync.errors import SpecError
from autosync.simulator.networks.linear import linear
from autosync.simulator.networks.network import EnsembleMember, Network
from autosync.simulator.networks.rnn import rnn

__all__ = ["NETWORKS", "EnsembleMember", "Network", "network_called"]


def _gat() -> Network:
    from autosync.simulator.networks.gat import gat  # import torch_geometric only if this network is used

    return gat()


NETWORKS: Mapping[str, Callable[[], Network]] = MappingProxyType({"linear": linear, "rnn": rnn, "gat": _gat})


def network_called(name: str) -> Network:
    """Return the network called `name`. Raises `SpecError` with a list of the known networks."""
    if name not in NETWORKS:
        raise SpecError(f"Unknown network {name!r}. Known: {', '.join(NETWORKS)}.")
    return NETWORKS[name]()

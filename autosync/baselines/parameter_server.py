"""Parameter server: every variable on one server.

AutoDist's `PS` builder, after Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014.
"""

from __future__ import annotations

from autosync.baselines.decisions import strategy_of
from autosync.spec import ClusterSpec, ModelSpec, ParameterServer, Strategy

__all__ = ["parameter_server"]


def parameter_server(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable whole on the cluster's first server."""
    first = ParameterServer(str(cluster.server_devices[0]))
    return strategy_of(model, cluster, {variable.name: [first] for variable in model.variables})

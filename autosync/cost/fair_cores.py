"""How many cores each node has while all nodes are busy, where some of them share one machine's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autosync.spec import ClusterSpec, SharedCores

__all__ = ["fair_cores"]


def fair_cores(cluster: ClusterSpec) -> npt.NDArray[np.float64]:
    """Cores (nodes,): a node's own, or its max-min fair part of the machine it shares, if that is less.

    Nodes with fewer cores than an even part leave the rest to the others (Bertsekas and Gallager, Data Networks,
    section 6.5.2, for one resource).
    """
    cores = np.array([node.cores for node in cluster.nodes])
    by_machine: dict[SharedCores, list[int]] = {}
    for number, node in enumerate(cluster.nodes):
        if node.shared_cores is not None:
            by_machine.setdefault(node.shared_cores, []).append(number)
    for machine, numbers in by_machine.items():
        left = machine.count
        for done, number in enumerate(sorted(numbers, key=lambda each: cores[each])):
            cores[number] = min(cores[number], left / (len(numbers) - done))
            left -= cores[number]
    return cores

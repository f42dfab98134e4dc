"""A shared machine's cores are divided among the nodes emulated on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator
from autosync.cost.capacity import fair_cores
from autosync.spec import AllReduce, ClusterSpec, SharedCores
from tests import cases
from tests.cost.cases import all_by


def playing(*nodes: tuple[float, SharedCores | None]) -> ClusterSpec:
    """A star whose nodes are (cores, shared machine)."""
    cluster = cases.star_cluster(len(nodes))
    changed = zip(cluster.nodes, nodes, strict=True)
    return replace(
        cluster, nodes=tuple(replace(node, cores=cores, shared_cores=shared) for node, (cores, shared) in changed)
    )


ONE, OTHER = SharedCores("one", 2.0), SharedCores("other", 3.0)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([(2.0, None), (4.0, None)], [2.0, 4.0]),
        ([(2.0, ONE)] * 4, [0.5] * 4),
        ([(2.0, ONE), (0.2, ONE), (2.0, ONE), (2.0, ONE)], [0.6, 0.2, 0.6, 0.6]),
        ([(0.5, ONE), (0.25, ONE)], [0.5, 0.25]),
        ([(2.0, ONE), (4.0, OTHER), (4.0, None), (4.0, OTHER)], [2.0, 1.5, 4.0, 1.5]),
    ],
)
def test_nodes_of_a_machine_divide_its_cores_and_leave_what_they_cannot_use(nodes, expected):
    np.testing.assert_allclose(fair_cores(playing(*nodes)), expected)


def test_the_closed_form_counts_computing_on_a_shared_machine():
    model = cases.mlp_model()
    alone, shared = playing(*[(2.0, None)] * 4), playing(*[(2.0, ONE)] * 4)
    found = [
        AnalyticSimulator().predict(model, cluster, [all_by(model, cluster, AllReduce(0))])[0]
        for cluster in (alone, shared)
    ]
    assert found[1] > found[0]

"""Networks read a table whose looked-up rows are sent apart as two variables."""

from __future__ import annotations

import numpy as np
import torch

from autosync.cost import Blended
from autosync.layout.apart import apart
from autosync.simulator.inputs import Detail
from autosync.simulator.settings import NOTHING_WITHHELD
from autosync.simulator.view import View
from tests.cost.test_rows_apart import CLUSTER, MODEL, small_buckets, with_rows_apart


def test_the_inputs_are_those_of_the_two_variables() -> None:
    view = View(Blended(), Detail.GRAPH, NOTHING_WITHHELD)
    whole, split = small_buckets(), with_rows_apart(small_buckets())
    inputs, base = view.of(MODEL, CLUSTER, [split, whole])
    model, strategy = apart(MODEL, split)
    alone, alone_base = view.of(model, CLUSTER, [strategy])
    assert [len(rows) for rows in inputs.variables] == [4, 3]
    np.testing.assert_allclose(base[0], alone_base[0])
    torch.testing.assert_close(inputs.pooled[0], alone.pooled[0])
    torch.testing.assert_close(inputs.variables[0], alone.variables[0])
    torch.testing.assert_close(inputs.graphs[0].edge_inputs, alone.graphs[0].edge_inputs)

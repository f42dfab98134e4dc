"""The graph network: attention (GATv2, Brody et al. 2022) among variables, servers, buckets, links and switches."""

from collections.abc import Sequence
from typing import final

import torch
from torch_geometric.nn import GATv2Conv

from autosync.simulator.encoding import BUCKET_INPUTS, EDGE_INPUTS, LINK_INPUTS, SERVER_INPUTS, VARIABLE_INPUTS
from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.networks.head import ResidualHead, embedding, pool_by_owner
from autosync.simulator.networks.linear import LinearResidual
from autosync.simulator.networks.network import Network, torch_network
from autosync.simulator.settings import TrainingSettings

WIDTH, HEADS, LAYERS = 24, 2, 2
KINDS = 6
"""The number of kinds of nodes: variables, servers, buckets, links, switches, the hub."""


@final
class GraphResidual(LinearResidual):
    """The linear network plus the nodes' states after attention layers, pooled over the nodes of each kind."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (VARIABLE_INPUTS, SERVER_INPUTS, BUCKET_INPUTS, LINK_INPUTS)
        self.embed = torch.nn.ModuleList(embedding(len(names), WIDTH) for names in sizes)
        self.bare = torch.nn.Parameter(torch.randn(2, WIDTH) / WIDTH**0.5)
        self.layers = torch.nn.ModuleList(
            GATv2Conv(WIDTH, WIDTH // HEADS, HEADS, edge_dim=len(EDGE_INPUTS), add_self_loops=False)
            for _ in range(LAYERS)
        )
        self.head = ResidualHead(8 * WIDTH, WIDTH)

    def forward(self, inputs: Inputs) -> torch.Tensor:
        graphs, count = inputs.graphs, len(inputs)
        rows = [torch.cat(inputs.variables)]
        rows += [torch.cat([getattr(graph, kind) for graph in graphs]) for kind in ("servers", "buckets", "links")]
        sizes = torch.tensor(
            [
                [len(variables), len(graph.servers), len(graph.buckets), len(graph.links), graph.switches, 1]
                for variables, graph in zip(inputs.variables, graphs, strict=True)
            ]
        )
        nodes = [embed(row) for embed, row in zip(self.embed, rows, strict=True)]
        nodes += [bare.expand(int(size), -1) for bare, size in zip(self.bare, sizes[:, 4:].sum(dim=0), strict=True)]
        states, edges = torch.cat(nodes), _join_edges([graph.edges for graph in graphs], sizes)
        edge_inputs = torch.cat([graph.edge_inputs for graph in graphs])
        for layer in self.layers:
            states = states + torch.nn.functional.silu(layer(states, edges, edge_inputs))
        by_kind = states.split(sizes.sum(dim=0).tolist())
        owners = [torch.repeat_interleave(torch.arange(count), sizes[:, kind]) for kind in range(KINDS)]
        encoded = torch.cat([pool_by_owner(by_kind[kind], owners[kind], count) for kind in (0, 1, 2, 5)], dim=1)
        return super().forward(inputs) + self.head(encoded, inputs.pooled)


def _join_edges(edges: Sequence[torch.Tensor], sizes: torch.Tensor) -> torch.Tensor:
    """Concatenate the edges of all graphs; `sizes` is (graphs, kinds). Nodes are renumbered kind by kind, then graph by
    graph.
    """
    of_kind = sizes.sum(dim=0).cumsum(0) - sizes.sum(dim=0)
    before = sizes.cumsum(0) - sizes
    within_graph = sizes.cumsum(1) - sizes
    shifts = of_kind + before - within_graph
    each_size = sizes.sum(dim=1)
    numbers = torch.repeat_interleave(shifts.flatten(), sizes.flatten())
    starts = each_size.cumsum(0) - each_size
    shifted = []
    for pairs, start in zip(edges, starts.tolist(), strict=True):
        shifted.append(pairs + numbers[start + pairs])
    return torch.cat(shifted, dim=1)


def gat() -> Network:
    settings = TrainingSettings(members=4, steps=200, epochs=30, batch=48, learning_rate=0.006)
    return torch_network(Detail.GRAPH, settings, GraphResidual)

"""Each algorithm's moves give every member the mean, and its closed form equals the sum of its moves."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from autosync.layout.all_reduce import layout_of
from autosync.layout.exchange import Exchange
from autosync.layout.moves import Move, Moves, exchange_of
from autosync.layout.topology import Topology
from autosync.spec import ALGORITHMS, ClusterSpec
from tests import cases
from tests.layout.carried_out import carried_out
from tests.layout.places import on_nodes

MADE_OF_MOVES = [name for name in ALGORITHMS if layout_of(name).moves]
NODES = [
    *(["node0"] * count for count in range(1, 10)),
    *([f"node{place}" for place in range(count)] for count in range(2, 10)),
    *([f"node{place // 2}" for place in range(count)] for count in range(3, 8)),
    ["node0", "node1", "node1", "node2", "node0", "node2", "node2"],
]


PLACES = {
    **{" ".join(node[-1] for node in nodes): on_nodes(nodes) for nodes in NODES},
    **{f"racks of {sizes}": Topology.of(cases.racks(*sizes)) for sizes in ((2, 2, 2), (3, 2), (5, 1, 1), (3, 3, 2, 1))},
    "one is slow": Topology.of(cases.uneven_cluster()),
}


@pytest.mark.parametrize("topology", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("algorithm", MADE_OF_MOVES)
class TestMoves:
    @pytest.mark.parametrize("elements", [1, 2, 3, 5, 8, 23])
    def test_each_mean_has_every_gradient_once_and_is_computed_by_one_member(
        self, algorithm: str, topology: Topology, elements: int
    ) -> None:
        of_members = carried_out(_moves(algorithm, topology, elements), len(topology), elements)
        for means in zip(*of_members, strict=True):
            assert means[0] is not None
            assert means[0].summed == Counter(range(len(topology)))
            assert all(mean == means[0] for mean in means)

    def test_no_move_is_empty_or_to_its_sender_or_repeated(self, algorithm: str, topology: Topology) -> None:
        for elements in (1, 2, 3, 5, 8, 23):
            moves = _moves(algorithm, topology, elements)
            for phase in (moves.adding, moves.copying):
                listed = [move for moves_of_round in phase for move in moves_of_round]
                assert len(set(listed)) == len(listed)
                assert all(source != target and begin < end for source, target, (begin, end) in listed)


def _moves(algorithm: str, topology: Topology, elements: int) -> Moves:
    moves_of = layout_of(algorithm).moves
    assert moves_of is not None
    return moves_of(topology, elements, 4)


def test_a_sum_that_lacks_one_is_seen() -> None:
    lacking = Moves.there_and_back([[Move(1, 0, (0, 2))], [Move(2, 0, (1, 2))]])
    assert [mean.summed.total() if mean else None for mean in carried_out(lacking, 3, 2)[0]] == [2, 3]
    assert carried_out(lacking, 3, 2)[2][0] != carried_out(lacking, 3, 2)[0][0]


CLUSTERS = {
    **{f"{count} workers": cases.local_cluster(count) for count in (1, 2, 3, 5, 8)},
    **{f"{count} nodes": cases.star_cluster(count) for count in (2, 3, 5)},
    "three by two": cases.star_cluster(3, workers=2),
    "two racks": cases.rack_cluster(),
    "three racks": cases.racks(2, 2, 2),
    "uneven": cases.uneven_cluster(),
    "GPUs": cases.gpu_cluster(),
}


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("algorithm", [name for name in MADE_OF_MOVES if layout_of(name).closed_form])
def test_a_closed_form_equals_the_sum_of_the_moves(algorithm: str, cluster: ClusterSpec) -> None:
    moves_of, topology = layout_of(algorithm).moves, Topology(cluster, tuple(map(str, cluster.replica_devices)))
    assert moves_of is not None
    closed, listed = layout_of(algorithm).exchange(topology, 2), exchange_of(moves_of, topology, 2)
    assert _rounds(closed) == _rounds(listed)
    for of_pair, expected in zip(_added_up(closed), _added_up(listed), strict=True):
        assert of_pair == pytest.approx(expected, rel=1e-5)


def _rounds(exchange: Exchange) -> int:
    return sum(stage.rounds for stage in exchange.push if stage.transfers)


def _added_up(exchange: Exchange) -> list[dict[tuple[str, str], float]]:
    """Shares, messages and gradients by sender and receiver, and the work of each device."""
    sent: list[dict[tuple[str, str], float]] = [defaultdict(float) for _ in range(3)]
    for transfer in (transfer for stage in exchange.push for transfer in stage.transfers):
        for total, figure in zip(sent, (transfer.payload, transfer.messages, transfer.gradients), strict=True):
            total[transfer.source, transfer.target] += figure
    work = {(work.device, name): getattr(work, name) for work in exchange.work for name in ("added", "updated_held")}
    return [*sent, work]

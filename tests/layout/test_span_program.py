"""Members that know only their own program execute an exchange, and all of them get the mean."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from autosync.layout.all_reduce import layout_of
from autosync.layout.exchange import Exchange, Processes
from autosync.layout.moves import Move, Moves, Span
from autosync.layout.server import dense_server_exchange
from autosync.layout.span_program import Program, SpanMessage, programs_of, server_moves
from autosync.layout.topology import Topology
from autosync.spec import ALGORITHMS, ClusterSpec
from tests import cases
from tests.layout.numpy_members import run_members
from tests.layout.test_moves import PLACES

PLACED = [name for name in ALGORITHMS if layout_of(name).moves]
SOME_PLACES = {
    name: topology
    for name, topology in PLACES.items()
    if name in ("0", "0 1 2 3 4", "0 0 1 1 2", "0 1 1 2 0 2 2", "one is slow") or "racks" in name
}


def _arrays(members: int, elements: int) -> list[np.ndarray]:
    return list(np.random.default_rng(elements).normal(size=(members, elements)))


@pytest.mark.parametrize("elements", [1, 5, 97])
@pytest.mark.parametrize("topology", SOME_PLACES.values(), ids=SOME_PLACES)
@pytest.mark.parametrize("algorithm", PLACED)
class TestAllReduce:
    def test_members_end_with_the_same_bits_of_the_mean(
        self, algorithm: str, topology: Topology, elements: int
    ) -> None:
        arrays, programs = _arrays(len(topology), elements), _programs(algorithm, topology, elements)
        means, _ = run_members(programs, arrays, elements, lambda _member, _span, total: total / len(arrays))
        assert len({mean.tobytes() for mean in means}) == 1
        np.testing.assert_allclose(means[0], np.mean(arrays, axis=0), rtol=1e-12, atol=1e-12)

    def test_members_that_update_what_they_finish_end_with_the_same_bits_of_the_values(
        self, algorithm: str, topology: Topology, elements: int
    ) -> None:
        """A member could so keep the optimizer's slots of its own spans only."""
        arrays, programs = _arrays(len(topology), elements), _programs(algorithm, topology, elements)
        values = np.arange(float(elements))

        def update(_member: int, span: Span, total: np.ndarray) -> np.ndarray:
            return values[slice(*span)] - 0.1 * total / len(arrays)

        updated, _ = run_members(programs, arrays, elements, update)
        assert len({of_member.tobytes() for of_member in updated}) == 1
        np.testing.assert_allclose(updated[0], values - 0.1 * np.mean(arrays, axis=0), rtol=1e-12, atol=1e-12)

    def test_every_move_is_one_message_and_each_element_is_finished_once(
        self, algorithm: str, topology: Topology, elements: int
    ) -> None:
        programs, moves = _programs(algorithm, topology, elements), _moves(algorithm, topology, elements)
        sent = _sent(programs)
        assert sent == Counter(move for stage in moves.stages for move in stage)
        finished = sorted(span for program in programs for steps in program.rounds for span in steps.finished)
        assert finished[0][0] == 0
        assert finished[-1][1] == elements
        assert all(before[1] == after[0] for before, after in pairwise(finished))


def _moves(algorithm: str, topology: Topology, elements: int) -> Moves:
    moves_of = layout_of(algorithm).moves
    assert moves_of is not None
    return moves_of(topology, elements, 4)


def _programs(algorithm: str, topology: Topology, elements: int) -> tuple[Program, ...]:
    return programs_of(_moves(algorithm, topology, elements), len(topology), elements)


def _sent(programs: tuple[Program, ...]) -> Counter[Move]:
    """All messages sent. Asserts that the receiver of each message expects it."""
    sent: Counter[Move] = Counter()
    for rounds in zip(*(program.rounds for program in programs), strict=True):
        for going, coming in (("sums_sent", "added"), ("results_sent", "copied")):
            expected = Counter(
                (source, target, span) for source, steps in enumerate(rounds) for target, span in getattr(steps, going)
            )
            received = Counter(
                (source, target, span) for target, steps in enumerate(rounds) for source, span in getattr(steps, coming)
            )
            assert received == expected
            sent.update(Move(*message) for message in expected.elements())
    return sent


def test_a_ring_of_three_equals_the_program_written_by_hand() -> None:
    first, _, _ = _programs("ring", PLACES["0 1 2"], 3)
    begin, middle, *rest = first.rounds
    assert begin.cuts == (((0, 3), ((0, 1), (1, 2), (2, 3))),)
    assert [len(steps.sums_sent) for steps in (begin, middle)] == [1, 1]
    assert all(message.peer == 1 for steps in first.rounds for message in (*steps.sums_sent, *steps.results_sent))
    assert all(message.peer == 2 for steps in first.rounds for message in (*steps.added, *steps.copied))
    assert sum(len(steps.finished) for steps in rest) == 1


def test_results_are_joined_where_a_larger_span_of_them_goes_on() -> None:
    """Member 0 finishes one half, receives the other half, and sends both to member 2 as one span."""
    halves, whole = ((0, 2), (2, 4)), (0, 4)
    adding = ((Move(2, 0, halves[0]), Move(2, 1, halves[1])), (Move(1, 0, halves[0]), Move(0, 1, halves[1])))
    copying = ((Move(1, 0, halves[1]), Move(0, 1, halves[0])), (Move(0, 2, whole),))
    programs = programs_of(Moves(adding, copying), 3, 4)
    assert programs[0].rounds[3].joins == ((whole, halves),)
    assert programs[2].rounds[3].copied == (SpanMessage(0, whole),)
    means, _ = run_members(programs, _arrays(3, 4), 4, lambda _member, _span, total: total / 3)
    np.testing.assert_allclose(means[2], np.mean(_arrays(3, 4), axis=0), rtol=1e-12)


SERVED = {
    "of its own node": (cases.star_cluster(3), "node1/cpu:0"),
    "two workers a node": (cases.star_cluster(3, workers=2), "node0/cpu:1"),
    "racks": (cases.rack_cluster(), "node0/cpu:0"),
    "beside GPUs": (cases.gpu_cluster(), None),
}


@pytest.mark.parametrize("local_copy", [False, True], ids=["straight", "local copy"])
@pytest.mark.parametrize(("cluster", "server"), SERVED.values(), ids=SERVED)
class TestServer:
    def test_the_server_alone_updates_and_replicas_get_its_bits(
        self, cluster: ClusterSpec, server: str | None, local_copy: bool
    ) -> None:
        replicas = tuple(map(str, cluster.replica_devices))
        owner = server or str(cluster.nodes[0].cpu_devices[0])
        found = server_moves(owner, replicas, Processes.of_cluster(cluster), 7, local_copy)
        arrays = [
            _arrays(1, 7)[0] * place if device in replicas else None for place, device in enumerate(found.devices)
        ]
        contributors = {place for place, array in enumerate(arrays) if array is not None}
        programs = programs_of(found.moves, len(found.devices), 7, contributors)
        updates = []

        def update(member: int, span: Span, total: np.ndarray) -> np.ndarray:
            updates.append((found.devices[member], span))
            return 5.0 - total / len(replicas)

        values, _ = run_members(programs, arrays, 7, update)
        assert updates == [(owner, (0, 7))]
        mean = sum(array for array in arrays if array is not None) / len(replicas)
        of_replicas = [value for device, value in zip(found.devices, values, strict=True) if device in replicas]
        np.testing.assert_allclose(of_replicas[0], 5.0 - mean, rtol=1e-12)
        assert len({value.tobytes() for value in of_replicas}) == 1

    def test_the_messages_are_those_that_the_cost_model_counts(
        self, cluster: ClusterSpec, server: str | None, local_copy: bool
    ) -> None:
        replicas, processes = tuple(map(str, cluster.replica_devices)), Processes.of_cluster(cluster)
        owner = server or str(cluster.nodes[0].cpu_devices[0])
        found = server_moves(owner, replicas, processes, 7, local_copy)
        contributors = {place for place, device in enumerate(found.devices) if device in replicas}
        listed = Counter(
            (found.devices[source], found.devices[target])
            for source, target, _ in _sent(programs_of(found.moves, len(found.devices), 7, contributors))
        )
        across = Counter({ends: count for ends, count in listed.items() if processes.apart(*ends)})
        assert across == _messages(dense_server_exchange(owner, local_copy, replicas, processes, 0))


def _messages(exchange: Exchange) -> Counter[tuple[str, str]]:
    stages = (*exchange.pull, *exchange.push)
    return Counter((transfer.source, transfer.target) for stage in stages for transfer in stage.transfers)

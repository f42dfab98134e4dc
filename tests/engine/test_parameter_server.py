"""Parameter servers: pushing in pieces and sending back at once changes no bit of training."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.engine.tensorflow.sync import stream
from autosync.layout.fusion import parcels
from tests.cases import local_cluster, star_cluster
from tests.contracts.parity import BOUNDS, reference, session_on, trained_alike
from tests.contracts.ways import ALONE

FOUR_WORKERS = local_cluster(4)
TWO_BY_TWO = star_cluster(nodes=2, workers=2)
SERVED = ("one server", "one server, local copies", "servers, first axis cut", "servers, last axis cut")


@pytest.fixture
def many_pieces(monkeypatch):
    """Sets message sizes so small that even these models have several parcels, in pieces that wait for each other."""
    monkeypatch.setattr("autosync.layout.fusion.PARCEL_BYTES", 256)
    monkeypatch.setattr("autosync.layout.fusion.PIECE_BYTES", 64)
    monkeypatch.setattr(stream, "WINDOW_BYTES", 300)
    monkeypatch.setattr(stream, "WINDOW_PIECES", 2)


def _trained(way, cluster, optimizer="Adam"):
    session = session_on("pooled", optimizer, cluster)
    step = session.realize(ALONE[way](session.model, cluster))
    for batches in reference("pooled", optimizer, 4).batches:
        step.on(batches)
    return step


@pytest.mark.quick("one server, local copies-two nodes of two")
@pytest.mark.parametrize("cluster", [FOUR_WORKERS, TWO_BY_TWO], ids=["four workers", "two nodes of two"])
@pytest.mark.parametrize("way", SERVED)
def test_pieces_change_no_bit_of_what_is_trained(way, cluster, request):
    whole = _trained(way, cluster).values(3)
    request.getfixturevalue("many_pieces")
    cut = _trained(way, cluster)
    assert max(len(server.piece_sizes) for server in cut.placed.servers) > 1
    for name, value in cut.values(3).items():
        assert value.tobytes() == whole[name].tobytes(), name


@pytest.mark.quick("clipped")
@pytest.mark.parametrize("optimizer", ["clipped", "scaled"])
@pytest.mark.usefixtures("many_pieces")
def test_pieces_wait_for_all_gradients_where_the_optimizer_looks_at_them_together(optimizer):
    session = session_on("pooled", optimizer, FOUR_WORKERS)
    step = session.realize(ALONE["servers, first axis cut"](session.model, FOUR_WORKERS))
    trained_alike(step, reference("pooled", optimizer, 4), BOUNDS[optimizer])


def test_from_a_stale_server_replicas_pull_and_keep_nothing():
    session = session_on("pooled", "SGD", FOUR_WORKERS)
    fresh = ALONE["one server"](session.model, FOUR_WORKERS)
    variables = tuple(
        replace(variable, shards=tuple(replace(shard, staleness=1) for shard in variable.shards))
        for variable in fresh.variables
    )
    step = session.realize(replace(fresh, variables=variables))
    assert all(server.copies is None for server in step.placed.servers)
    step.close()


def test_small_shards_of_one_server_are_one_array():
    session = session_on("dense", "SGD", FOUR_WORKERS)
    step = session.realize(ALONE["one server"](session.model, FOUR_WORKERS))
    (server,) = step.placed.servers
    assert len(server.shards) == len(session.model.variables)
    assert [shard.variable.ready_order for shard in server.shards] == list(range(len(server.shards)))
    assert parcels([shard.elements * 4 for shard in server.shards]) == [range(len(server.shards))]

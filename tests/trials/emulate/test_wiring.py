"""The interfaces, veth pairs and rates of an emulated cluster, and the commands that make them."""

from __future__ import annotations

import pytest

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Node
from tests.trials.emulate.clusters import LOOPBACKS, chain, linked, two_racks
from trials.cluster.racks import star_of
from trials.emulate.network import commands_of, shaping_arguments
from trials.emulate.wiring import Port, VethPair, Wiring


def test_each_direction_has_the_rate_of_its_link_and_an_assumed_one_has_none() -> None:
    switches = "as-x-switch"
    assert Wiring("x", two_racks()).veth_pairs == (
        VethPair(Port("as-x-0", "eth0", 0.2), Port(switches, "port0", 0.4, "br0")),
        VethPair(Port("as-x-1", "eth0", 0.3), Port(switches, "port1", None, "br1")),
        VethPair(Port(switches, "trunk0a", 0.1, "br0"), Port(switches, "trunk0b", 0.05, "br1")),
    )


def test_addresses_are_given_in_the_order_of_the_nodes() -> None:
    nodes = Wiring("x", two_racks()).with_addresses.nodes
    assert [(node.name, node.address) for node in nodes] == [("a", "10.77.0.1"), ("b", "10.77.0.2")]


def test_every_end_with_a_rate_is_shaped_and_no_other() -> None:
    shaped = {
        (command[2], command[6], command[10]) for command in commands_of(Wiring("x", two_racks())) if command[0] == "tc"
    }
    assert shaped == {
        ("as-x-0", "eth0", "200000000bit"),
        ("as-x-switch", "port0", "400000000bit"),
        ("as-x-1", "eth0", "300000000bit"),
        ("as-x-switch", "trunk0a", "100000000bit"),
        ("as-x-switch", "trunk0b", "50000000bit"),
    }


def test_a_burst_is_one_packet_and_a_moment_of_the_link() -> None:
    bursts = {rate: int(shaping_arguments(rate)[4].removesuffix("b")) for rate in (0.01, 0.1, 1.0, 10.0)}
    assert bursts == {0.01: 9339, 0.1: 12264, 1.0: 41514, 10.0: 334014}


def test_every_interface_between_nodes_has_the_same_large_packets() -> None:
    """A switch drops packets that do not fit into its next link."""
    ups = [command for command in commands_of(Wiring("x", two_racks())) if command[-1] == "up"]
    frames = {(up[2], up[5]): up[6:-1] for up in ups if up[5] != "lo"}
    assert set(frames) == {
        ("as-x-0", "eth0"),
        ("as-x-1", "eth0"),
        *(("as-x-switch", name) for name in ("br0", "br1", "port0", "port1", "trunk0a", "trunk0b")),
    }
    assert {tuple(frame) for frame in frames.values()} == {("mtu", "9000")}


def test_a_lone_node_has_its_address_and_no_wire() -> None:
    wiring = Wiring("x", star_of(1, 1.0))
    assert wiring.veth_pairs == ()
    assert ["ip", "-n", "as-x-0", "address", "add", "10.77.0.1/24", "dev", "lo"] in commands_of(wiring)


NODES = (Node("a", "", 1.0), Node("b", "", 1.0))


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        (chain(("a", "b"), switches=()), "a link leads from 'a' straight to 'b'; put a switch between them."),
        (
            chain(("a", "s"), ("b", "s"), ("a", "t"), switches=("s", "t")),
            "An emulated node is attached to one switch; give 'a' one link each way.",
        ),
        (
            chain(("a", "s"), ("b", "t"), ("s", "t"), ("t", "u"), ("u", "s"), switches=("s", "t", "u")),
            "Emulated switches must not form a circle; remove the links between 't' and 'u'.",
        ),
        (
            ClusterSpec(
                NODES,
                (
                    *LOOPBACKS,
                    linked("a", "s", 1),
                    linked("s", "a", 1),
                    linked("b", "s", 1),
                    linked("s", "b", 1),
                    linked("s", "t", 1),
                ),
                ("s", "t"),
            ),
            "An emulated link has two directions; add the link from 't' to 's'.",
        ),
        (
            ClusterSpec(NODES, (*chain(("a", "s"), ("b", "s"), switches=("s",)).links, linked("a", "s", 2)), ("s",)),
            "An emulated link is stated once for each direction; remove the repeated ones.",
        ),
    ],
)
def test_a_cluster_that_bridges_cannot_form_is_refused_in_a_sentence(cluster: ClusterSpec, sentence: str) -> None:
    with pytest.raises(ClusterError) as refused:
        Wiring("x", cluster)
    assert sentence in str(refused.value)

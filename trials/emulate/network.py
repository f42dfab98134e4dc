"""Makes and removes the network of an emulated cluster: namespaces, bridges, veth pairs, and their shaping."""

import subprocess
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from autosync.errors import ClusterError
from trials.emulate.isolation import NETWORK, unshare
from trials.emulate.processes import Process
from trials.emulate.wiring import Port, Wiring
from trials.signals import ctrl_c_waits

FRAME_BYTES = 9000
"""Largest packet, in bytes: jumbo frames, as in clusters' networks.

A shaped link sends packet by packet, and each packet costs time of this machine's processors, which the workers share.
Measured on two cores, as a ring of 3 MB between TensorFlow processes in two racks with uplinks of 300 Mbit/s: with
packets of 1500 bytes, packet handling took half of the processors' time, 3 % were sent again, and 172 Mbit/s went
between the racks. With jumbo frames, handling takes an eighth, none are sent again, and 236 Mbit/s go.
"""

HEADER_BYTES = 14
BURST_SECONDS = 260e-6
"""Seconds of the link's time that may pass at the host's speed after a pause, in addition to one packet.

With this burst, a flow of 3 MB has 95 to 98 % of its rate at 50 to 200 Mbit/s. A message of 64 KiB takes 4.7 ms longer
at 100 Mbit/s than at 10 Gbit/s, where its size and the rate predict 5.2. With a burst of 64 KiB it took 7 % of that,
and small variables would look free.
"""

QUEUE_MS = 50
"""Milliseconds of traffic, at the link's rate, that a link queues before it drops packets; typical of a switch."""


def burst_bytes(gbit_per_s: float) -> int:
    """Return the bytes that may pass at once; a burst smaller than a packet would block all traffic."""
    return FRAME_BYTES + HEADER_BYTES + round(gbit_per_s * 1e9 / 8 * BURST_SECONDS)


def shaping_arguments(gbit_per_s: float) -> list[str]:
    """Return the arguments of `tc qdisc replace dev X root` that limit outgoing traffic to this rate."""
    bits_per_second = round(gbit_per_s * 1e9)
    return ["tbf", "rate", f"{bits_per_second}bit", "burst", f"{burst_bytes(gbit_per_s)}b", "latency", f"{QUEUE_MS}ms"]


def shaping_command(port: Port) -> list[str] | None:
    """Return the command that sets the port's rate and replaces an earlier one; None for a port without a rate."""
    if port.gbit_per_s is None:
        return None
    shape = shaping_arguments(port.gbit_per_s)
    return ["tc", "-n", port.namespace, "qdisc", "replace", "dev", port.interface, "root", *shape]


NETNS = Path("/run/netns")


def commands_of(wiring: Wiring) -> list[list[str]]:
    """Return the commands that make the network, in order."""
    switches = wiring.switch_namespace
    commands = [["ip", "netns", "add", namespace] for namespace in wiring.namespaces]
    for bridge in wiring.bridges.values():
        commands += [
            ["ip", "-n", switches, "link", "add", bridge, "type", "bridge"],
            _set_up(switches, bridge, FRAME_BYTES),
        ]
    for pair in wiring.veth_pairs:
        a, b = ([port.interface, "netns", port.namespace] for port in (pair.a, pair.b))
        commands.append(["ip", "link", "add", *a, "type", "veth", "peer", "name", *b])
        commands += [command for port in (pair.a, pair.b) for command in _of_port(port)]
    for index, node in enumerate(wiring.with_addresses.nodes):
        namespace = wiring.node_namespace(index)
        device = "eth0" if wiring.node_pair(index) else "lo"
        commands.append(["ip", "-n", namespace, "address", "add", f"{node.address}/24", "dev", device])
        commands.append(_set_up(namespace, "lo"))
    return commands


def make_network(wiring: Wiring) -> None:
    """Make the network. Raises `ClusterError` with the output of the failing command."""
    run_all(commands_of(wiring))


def run_all(commands: Iterable[list[str]]) -> None:
    """Run the commands in order. Raises `ClusterError` with the output of the first command that fails."""
    for command in commands:
        _run(command)


def set_wire(wiring: Wiring, index: int, up: bool) -> None:
    """Plug the node at `index` into its switch, or unplug it there; the node itself sees no difference."""
    pair = wiring.node_pair(index)
    if pair is None:
        raise ClusterError("A cluster of one node has no link to plug or unplug; make a cluster of two or more.")
    _run(["ip", "-n", pair.b.namespace, "link", "set", pair.b.interface, "up" if up else "down"])


def existing_namespaces(names: tuple[str, ...]) -> list[str]:
    """Return the `names` that exist as network namespaces."""
    return [name for name in names if (NETNS / name).exists()]


def processes_in(namespace: str) -> list[Process]:
    """Return the processes whose network is `namespace`; empty if it does not exist."""
    done = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    processes = []
    for pid in done.stdout.split():
        try:
            processes.append(Process.of(int(pid)))
        except ProcessLookupError:
            continue
    return processes


def remove_namespace(namespace: str) -> None:
    """Remove the namespace with its interfaces, if it exists. No process may be in it."""
    if existing_namespaces((namespace,)):
        _run(["ip", "netns", "delete", namespace])


def _of_port(port: Port) -> list[list[str]]:
    commands = []
    if port.bridge:
        commands.append(["ip", "-n", port.namespace, "link", "set", port.interface, "master", port.bridge])
    if command := shaping_command(port):
        commands.append(command)
    return [*commands, _set_up(port.namespace, port.interface, FRAME_BYTES)]


def _set_up(namespace: str, interface: str, frame_bytes: int | None = None) -> list[str]:
    frames = [] if frame_bytes is None else ["mtu", str(frame_bytes)]
    return ["ip", "-n", namespace, "link", "set", interface, *frames, "up"]


def _run(command: list[str]) -> None:
    """Run the command in a new empty network namespace, where the root of a user namespace has all rights.

    Raises `ClusterError` with the command's output if it fails.
    """
    empty = partial(unshare, NETWORK)
    with ctrl_c_waits():
        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=empty)
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise ClusterError(f"The network cannot be changed as asked: `{' '.join(command)}` said {said!r}.")

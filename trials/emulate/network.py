"""Making and removing the network of an emulated cluster: namespaces, bridges, wires, and their shaping."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from autosync.errors import ClusterError
from trials.emulate.processes import Process
from trials.emulate.shaping import FRAME_BYTES, shaping_arguments
from trials.emulate.wiring import Port, Wiring

__all__ = [
    "NETNS",
    "commands_of",
    "make_network",
    "processes_in",
    "remove_namespace",
    "run_all",
    "set_wire",
    "there_already",
]

NETNS = Path("/run/netns")


def commands_of(wiring: Wiring) -> list[list[str]]:
    """The commands that make the network, in order."""
    switches = wiring.switch_namespace
    commands = [["ip", "netns", "add", namespace] for namespace in wiring.namespaces]
    for bridge in wiring.bridges.values():
        commands += [
            ["ip", "-n", switches, "link", "add", bridge, "type", "bridge"],
            _set_up(switches, bridge, FRAME_BYTES),
        ]
    for wire in wiring.wires:
        a, b = ([port.interface, "netns", port.namespace] for port in (wire.a, wire.b))
        commands.append(["ip", "link", "add", *a, "type", "veth", "peer", "name", *b])
        commands += [command for port in (wire.a, wire.b) for command in _of_port(port)]
    for index, node in enumerate(wiring.with_addresses.nodes):
        namespace = wiring.node_namespace(index)
        device = "eth0" if wiring.node_wire(index) else "lo"
        commands.append(["ip", "-n", namespace, "address", "add", f"{node.address}/24", "dev", device])
        commands.append(_set_up(namespace, "lo"))
    return commands


def make_network(wiring: Wiring) -> None:
    """Make the network. Raises `ClusterError` with what the failing command said."""
    run_all(commands_of(wiring))


def run_all(commands: Iterable[list[str]]) -> None:
    """Run the commands in order. Raises `ClusterError` with what the first failing one said."""
    for command in commands:
        _run(command)


def set_wire(wiring: Wiring, index: int, up: bool) -> None:
    """Plug the node at `index` into its switch, or unplug it there; the node itself sees no difference."""
    wire = wiring.node_wire(index)
    if wire is None:
        raise ClusterError("A node that is alone has no link to plug or unplug.")
    _run(["ip", "-n", wire.b.namespace, "link", "set", wire.b.interface, "up" if up else "down"])


def there_already(names: tuple[str, ...]) -> list[str]:
    """The `names` that are network namespaces now."""
    return [name for name in names if (NETNS / name).exists()]


def processes_in(namespace: str) -> list[Process]:
    """Processes whose network is `namespace`; none when it does not exist."""
    done = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    found = []
    for pid in done.stdout.split():
        try:
            found.append(Process.of(int(pid)))
        except ProcessLookupError:
            continue
    return found


def remove_namespace(namespace: str) -> None:
    """Remove the namespace with its interfaces, if it exists. No process may be in it."""
    if there_already((namespace,)):
        _run(["ip", "netns", "delete", namespace])


def _of_port(port: Port) -> list[list[str]]:
    commands = []
    if port.bridge:
        commands.append(["ip", "-n", port.namespace, "link", "set", port.interface, "master", port.bridge])
    if port.gbit_per_s is not None:
        shape = shaping_arguments(port.gbit_per_s)
        commands.append(["tc", "-n", port.namespace, "qdisc", "replace", "dev", port.interface, "root", *shape])
    return [*commands, _set_up(port.namespace, port.interface, FRAME_BYTES)]


def _set_up(namespace: str, interface: str, frame_bytes: int | None = None) -> list[str]:
    frames = [] if frame_bytes is None else ["mtu", str(frame_bytes)]
    return ["ip", "-n", namespace, "link", "set", interface, *frames, "up"]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise ClusterError(f"The network cannot be changed as asked: `{' '.join(command)}` said {said!r}.")

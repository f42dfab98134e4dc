"""The command `autosync emulate`: makes, shows, uses, breaks and removes an emulated cluster."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import INTERRUPTED, SETTINGS, run_command
from autosync.commands.values import FILE, complete_cluster_file
from autosync.errors import ClusterError
from autosync.terminal import say, say_all
from trials.cluster.racks import parse_rate, star_of
from trials.emulate import faults
from trials.emulate.hosts import run_inside
from trials.emulate.in_use import in_use
from trials.emulate.lifecycle import Emulated, down, find, up
from trials.emulate.requirements import check_outside
from trials.emulate.rootless import begin_as_root
from trials.emulate.state import names_there_are, read_state
from trials.emulate.status import status_lines
from trials.guard import guarding

name_option = click.option("--name", default="net", show_default=True, help="Name of the emulated cluster.")


@click.group("emulate", context_settings=SETTINGS)
def command() -> None:
    """Clusters emulated on this machine: a network of shaped links, and a real Ray node on each of its hosts."""


@command.command("up")
@click.argument("file", required=False, type=FILE, shell_complete=complete_cluster_file)
@click.option("--nodes", type=click.IntRange(1), help="Nodes of a star.  [default: 4]")
@click.option("--link", help="Rate of each link of the star, such as 200mbit or 1.5gbit.  [default: 1gbit]")
@click.option("--no-ray", is_flag=True, help="Make the network and its hosts without starting Ray on them.")
@name_option
def up_command(file: Path | None, nodes: int | None, link: str | None, no_ray: bool, name: str) -> int:
    """Make an emulated cluster: the one described in FILE, or a star of like nodes."""
    begin_as_root(name)
    if file and (nodes or link):
        raise ClusterError("A cluster is described by a file, or by --nodes and --link; give one of the two.")
    from trials.cluster.file import read_cluster_file  # pydantic

    cluster = read_cluster_file(file) if file else star_of(nodes or 4, parse_rate(link or "1gbit"))
    try:
        made = up(name, cluster, start_ray=not no_ray, say=say)
        say_all(status_lines(made))
    except KeyboardInterrupt:
        say(_after_ctrl_c(name), err=True)
        return INTERRUPTED
    return 0


@command.command("status")
@name_option
def status_command(name: str) -> None:
    """Print the nodes, their links, processes and memory, and whether Ray is alive on them."""
    say_all(status_lines(_found(name)))


@command.command("down")
@click.option(
    "--if-orphaned", is_flag=True, help="Remove the cluster only if a command made it for itself and was killed."
)
@click.option(
    "--yes", is_flag=True, help="Do not ask before removing a cluster on which a command runs; the command ends too."
)
@name_option
def down_command(name: str, if_orphaned: bool, yes: bool) -> None:
    """Remove an emulated cluster, or its remains after a crash."""
    if read_state(name) is not None:
        begin_as_root(name)
    if not yes and not if_orphaned:
        _ask_if_in_use(name)
    gone = down(name, if_orphaned)
    say(f"Emulated cluster {name!r} is down." if gone else f"No emulated cluster {name!r} is up.{_others()}")


@command.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--node", help="Node on which to run the command.  [default: the head]")
@name_option
def exec_command(argv: tuple[str, ...], node: str | None, name: str) -> int:
    """Run a command on a node, such as: exec -- autosync tune --model bert."""
    cluster = _found(name)
    host = cluster.host(node) if node else cluster.hosts[0]
    try:
        with guarding():
            return run_inside(host, argv)
    except FileNotFoundError:
        raise ClusterError(f"The command {argv[0]!r} does not exist; name a command on the PATH.") from None


@command.group("fault")
def fault_group() -> None:
    """Break or repair a node, to see how a search copes."""


def _fault(command: str, about: str, act: Callable[[Emulated, str], object], then: str) -> None:
    """Add a command that calls `act` for a node, and prints the node's state `then`."""

    @fault_group.command(command, help=about)
    @click.argument("node")
    @name_option
    def act_on_node(node: str, name: str) -> None:
        act(_found(name), node)
        say(f"Node {node!r} {then}.")


_fault("kill", "End all processes of NODE at once.", faults.kill_node, "is dead")
_fault("restart", "Start NODE again, and let it join Ray.", faults.restart_node, "runs again")
_fault("unplug", "Cut NODE off its switch.", partial(faults.set_link, up=False), "is unplugged")
_fault("plug", "Join NODE to its switch again.", partial(faults.set_link, up=True), "is plugged in")


@fault_group.command("add")
@name_option
def add_command(name: str) -> None:
    """Add a node like the first one, on the same switch."""
    say(f"Node {faults.add_node(_found(name)).cluster.nodes[-1].name!r} has joined.")


def _found(name: str) -> Emulated:
    begin_as_root(name)
    cluster = find(name)
    if cluster is None:
        raise ClusterError(f"No emulated cluster {name!r} is up; make it with `autosync emulate up`.{_others()}")
    check_outside(host.namespace for host in cluster.hosts)
    return cluster


def _ask_if_in_use(name: str) -> None:
    """Ask whether to remove a cluster on which a command runs.

    Raises `ClusterError` without a terminal for the question, and `click.Abort` after a no.
    """
    state = read_state(name)
    use = in_use(state) if state else None
    if use is None:
        return
    if not sys.stdin.isatty():
        raise ClusterError(f"Emulated cluster {name!r} is in use: {use} and would end; give --yes to remove it.")
    click.confirm(f"Emulated cluster {name!r} is in use: {use} and would end. Remove it?", abort=True)


def _after_ctrl_c(name: str) -> str:
    """A sentence on the remains, after Ctrl-C, of a cluster that was being made."""
    try:
        state = read_state(name)
    except ClusterError as error:
        return f"Interrupted. {error}"
    remedy = f"`autosync emulate down --name {name}` removes it."
    if state is None:
        return "Interrupted; what had been made was removed."
    if state.is_up:
        return f"Interrupted; emulated cluster {name!r} is up and stays. {remedy}"
    return f"Interrupted; a part of emulated cluster {name!r} is left. {remedy}"


def _others() -> str:
    """A sentence with the names of all emulated clusters; empty without any."""
    names = names_there_are()
    return f" There are: {', '.join(names)}." if names else ""


main = partial(run_command, command, interrupted="Interrupted.")

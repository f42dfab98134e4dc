"""The life of an emulated cluster: makes, finds and removes it."""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Node
from trials.cluster.ray_labels import Later
from trials.emulate.changes import changing
from trials.emulate.hosts import HEAD_PORT, Host, start_host, start_inside
from trials.emulate.isolation import is_of_a_user_namespace
from trials.emulate.lifeline import hold_lifeline, release_lifeline
from trials.emulate.network import existing_namespaces, make_network, processes_in, remove_namespace
from trials.emulate.processes import Process, end_all
from trials.emulate.quotas import make_quota, quota_group, remove_quota
from trials.emulate.ray_nodes import DASHBOARD_PORT, join_rays, start_head
from trials.emulate.relay import start_relay
from trials.emulate.requirements import check_machine, check_outside
from trials.emulate.rootless import holding
from trials.emulate.state import HOLDER, State, folder_of, lock_folder, read_state, remove_folder, write_state
from trials.emulate.wiring import Wiring
from trials.guard import guarding
from trials.signals import ctrl_c_waits, ending_unwinds

SETTING = "/proc/sys/net/ipv4/tcp_congestion_control"


def congestion_control(host: Host) -> str:
    """Return the algorithm of TCP connections made in the host, such as `cubic`."""
    reading = start_inside(host, ["cat", SETTING], stdout=subprocess.PIPE, within_quota=False)
    said, _ = reading.communicate()
    return str(said.decode().strip())


def agree_on_congestion_control(hosts: Sequence[Host]) -> str:
    """Set the first host's algorithm in every host; most kernels have one algorithm anyway.

    Raises `ClusterError` on failure.
    """
    wanted, *algorithms = [congestion_control(host) for host in hosts]
    for host, algorithm in zip(hosts[1:], algorithms, strict=True):
        if algorithm != wanted:
            start_inside(host, ["sh", "-c", f"echo {wanted} > {SETTING}"], stderr=subprocess.DEVNULL).wait()
            if congestion_control(host) != wanted:
                raise ClusterError(
                    f"Every node must use the same TCP congestion control, but {hosts[0].node!r} uses {wanted!r} and "
                    f"{host.node!r} {algorithm!r}, which cannot be set here; set it for the whole machine with sysctl."
                )
    return wanted


LOCK_SECONDS = 10.0
"""Seconds that `down` waits for another command, which may be cleaning up after a kill."""


def _silent(_sentence: str) -> None:
    """Discard the sentence."""


@dataclass(frozen=True)
class Emulated:
    """An emulated cluster that is up. Restarting or adding a node returns a new object, which replaces this one."""

    name: str
    cluster: ClusterSpec
    hosts: tuple[Host, ...]
    ray_address: str
    """The address of Ray's head, as seen from the hosts."""
    token_path: Path
    """The file with Ray's token."""
    dashboard_url: str
    """The dashboard's URL on this machine, which asks for the token in `token_path`. Empty without Ray."""

    def host(self, node: str) -> Host:
        """Return the host of the node called `node`. Raises `SpecError`, which lists the existing nodes."""
        return self.hosts[self.cluster.nodes.index(self.cluster.node(node))]


def up(
    name: str,
    cluster: ClusterSpec,
    start_ray: bool = True,
    say: Callable[[str], None] = _silent,
    owner: Process | None = None,
) -> Emulated:
    """Make the emulated cluster `name`, or return it if it exists; `say` gets a sentence for everything unusual.

    Links with a stated or measured rate are slowed down to that rate; links with an assumed rate are left alone.
    Latencies are those of the machine. If a part fails, all parts are removed again. The cluster outlives this process,
    unless the process is its `owner`; an owner always gets a new cluster. Raises `ClusterError`, also while another
    command makes `name`.
    """
    check_machine()
    wiring = Wiring(name, cluster)
    folder = folder_of(name)
    existing = read_state(name)
    if existing and _lives(existing):
        if owner is not None:
            raise ClusterError(_up_already(name))
        return _reuse(existing, wiring, start_ray, say)
    if existing:
        _clear(name)
        say(f"The remains of {name!r} after a crash were removed first.")
    taken = existing_namespaces(wiring.namespaces)
    if taken:
        raise ClusterError(
            f"Network namespace {taken[0]!r} exists and was not made by this command; give another name, or remove it "
            f"with `ip netns delete {taken[0]}`."
        )
    groups = tuple(str(group) for index in range(len(cluster.nodes)) if (group := quota_of(wiring, index)))
    for path in groups:
        if Path(path).exists():
            raise ClusterError(f"Control group {path!r} exists and was not made by this command; give another name.")
    state = State(name, wiring.with_addresses, start_ray, namespaces=wiring.namespaces, cgroups=groups, owner=owner)
    with ExitStack() as stack:
        try:
            folder.mkdir(mode=0o700)
            stack.enter_context(lock_folder(folder))
        except (FileExistsError, FileNotFoundError):
            raise ClusterError(f"Another command makes {name!r} at this moment; wait for it to end.") from None
        stack.enter_context(ending_unwinds())
        try:
            write_state(state)
            if owner is not None:
                hold_lifeline(folder)
            if is_of_a_user_namespace():
                with holding(folder) as holder:
                    state = state.with_process(HOLDER, holder)
                    write_state(state)
            return of_state(_make(state, wiring))
        except BaseException:
            with ctrl_c_waits():
                _remove(read_state(name) or state)
            release_lifeline(folder)
            raise


def _lives(state: State) -> bool:
    """True if the cluster is complete and one of its processes runs; after a reboot none does."""
    return state.is_up and any(process.runs() for process in state.processes.values())


def _clear(name: str) -> None:
    """Remove the remains of `name` after a crash. Raises `ClusterError` if another command holds or has made it."""
    with suppress(FileNotFoundError), lock_folder(folder_of(name)):
        state = read_state(name)
        if state is not None:
            if _lives(state):
                raise ClusterError(_up_already(name))
            check_outside(state.namespaces)
            _remove(state)


def _up_already(name: str) -> str:
    return f"An emulated cluster {name!r} is up already; take it down first, or give another name."


def down(name: str, if_orphaned: bool = False) -> bool:
    """Remove everything that `up` made, complete or not; return False if there is nothing. Raises `ClusterError`.

    With `if_orphaned`, remove only a cluster whose owner is gone.
    """
    state = read_state(name)
    if state is None or (if_orphaned and not state.is_orphaned):
        return False
    check_machine()
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_folder(folder_of(name), LOCK_SECONDS))
        except FileNotFoundError:
            return False  # another command has removed it already
        state = read_state(name)
        if state is None or (if_orphaned and not state.is_orphaned):
            return False
        check_outside(state.namespaces)
        _remove(state)
    return True


def _remove(state: State) -> None:
    left = end_all(state.processes.values())
    # A crash may have happened between the start of a host and its record, so look into the networks too.
    left += end_all(process for namespace in state.namespaces for process in processes_in(namespace))
    if left:
        raise ClusterError(f"Process {left[0].pid} of {state.name!r} does not end when killed; run `down` again later.")
    for namespace in state.namespaces:
        remove_namespace(namespace)
    for group in state.cgroups:
        remove_quota(Path(group))
    remove_folder(state.folder)


def find(name: str) -> Emulated | None:
    """Return the emulated cluster `name` if it is complete; some of its nodes may have died."""
    state = read_state(name)
    return of_state(state) if state and state.is_up else None


@contextmanager
def emulated(name: str, cluster: ClusterSpec, start_ray: bool = True) -> Iterator[Emulated]:
    """Make an emulated cluster for a block, and remove it at the end of the block or when this process is killed.

    Raises `ClusterError` if `name` is up already.
    """
    if find(name):
        raise ClusterError(_up_already(name))
    remove = [sys.executable, "-m", "autosync", "emulate", "down", "--name", name, "--if-orphaned"]
    with ending_unwinds(), guarding(then=remove):
        made = up(name, cluster, start_ray, owner=Process.of(os.getpid()))  # `up` cleans up if it fails
        try:
            yield made
        finally:
            with ctrl_c_waits():
                down(name)
            release_lifeline(folder_of(name))


def of_state(state: State) -> Emulated:
    wiring = Wiring(state.name, state.cluster)
    head = f"{state.cluster.nodes[0].address}:{HEAD_PORT}"
    groups = {Path(path).name: Path(path) for path in state.cgroups}
    hosts = tuple(
        Host(
            node=node.name,
            index=index,
            address=node.address,
            namespace=wiring.node_namespace(index),
            folder=state.folder,
            head_address=head,
            cores=min(node.cores, (os.cpu_count() or 1) / len(state.cluster.nodes)),
            cores_quota_group=groups.get(_group_name(wiring, index)),
            init=state.processes.get(f"host{index}"),
            peers=tuple(peer.address for peer in state.cluster.nodes),
        )
        for index, node in enumerate(state.cluster.nodes)
    )
    return Emulated(state.name, state.cluster, hosts, head, state.folder / "token", state.dashboard_url)


def quota_of(wiring: Wiring, index: int) -> Path | None:
    """Return the control group for the node at `index`; None if the node has all of the machine's cores."""
    if wiring.cluster.nodes[index].cores >= (os.cpu_count() or 1):
        return None
    return quota_group(_group_name(wiring, index))


def _group_name(wiring: Wiring, index: int) -> str:
    return f"autosync-{wiring.name}-{index}"


def joining(state: State, index: int) -> tuple[Host, Node, str | None, Later]:
    """Return the arguments of `ray start` for the node at `index`. With several switches, its rack is its switch."""
    node, wiring = state.cluster.nodes[index], Wiring(state.name, state.cluster)
    switch = wiring.switch_of(node.name)
    rack = switch if len(state.cluster.switches) > 1 else None
    return of_state(state).hosts[index], node, rack, wiring.later_of(node.name, switch) if switch else ()


def _make(state: State, wiring: Wiring) -> State:
    token = state.folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32), encoding="ascii")
    make_network(wiring)
    for index, node in enumerate(state.cluster.nodes):
        group = of_state(state).hosts[index].cores_quota_group
        if group:
            make_quota(group, node.cores)
        state = state.with_process(f"host{index}", start_host(of_state(state).hosts[index]))
        write_state(state)
    agree_on_congestion_control(of_state(state).hosts)
    if state.starts_ray:
        state = _start_ray(state)
    state = replace(state, complete=True)
    with changing(state) if state.cluster.changes else nullcontext(state) as state:
        write_state(state)
    return state


def _start_ray(state: State) -> State:
    head, *others = of_state(state).hosts
    start_head(*joining(state, 0))
    url, relay = start_relay(head.namespace, head.address, DASHBOARD_PORT, state.folder)
    state = replace(state.with_process("relay", relay), dashboard_url=url)
    write_state(state)
    join_rays([joining(state, host.index) for host in others], head)
    return state


def _reuse(state: State, wiring: Wiring, start_ray: bool, say: Callable[[str], None]) -> Emulated:
    if state.cluster != wiring.with_addresses or state.starts_ray != start_ray:
        raise ClusterError(
            f"Emulated cluster {state.name!r} is up and differs from the requested one; take it down first, or give "
            "another name."
        )
    say(f"Emulated cluster {state.name!r} is up already; nothing was done.")
    return of_state(state)

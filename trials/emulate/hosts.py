"""A host: one emulated machine, with its own network, processes, home and Ray folder, and the machine's other files."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.engine.proxies import bypassing
from autosync.errors import ClusterError
from trials.emulate import isolation as namespaces
from trials.emulate.lifeline import lifeline
from trials.emulate.listed import marked
from trials.emulate.network import NETNS
from trials.emulate.processes import Process, remember_to_reap
from trials.emulate.quotas import join
from trials.phases import VARIABLE
from trials.signals import signals_go_to

HEAD_PORT = 6379

COMMAND = "AUTOSYNC_COMMAND"
"""The environment variable of a command that a user runs on a host, and of everything that it starts."""

PHASES_FILE = "phases.json"
"""The file in the emulated cluster's folder that says when phases began, where its links change."""

PRIVATE_FOLDERS = ("home", "ray", "tmp")
"""Folders of the emulated cluster that have one path and, in every host, another content."""


@dataclass(frozen=True)
class Host:
    """One emulated machine. `init` is its first process: every other one of the host ends with it.

    `folder` is the emulated cluster's; its `home`, `ray` and `tmp` are this host's own when seen from within.
    `cores` is the share of this machine's cores that is left for it when all hosts compute at once.
    `peers` are the addresses of all hosts of the emulated cluster.
    """

    node: str
    index: int
    address: str
    namespace: str
    folder: Path
    head_address: str
    cores: float = 1.0
    cores_quota_group: Path | None = None
    init: Process | None = None
    peers: tuple[str, ...] = ()

    @property
    def own_folder(self) -> Path:
        """The folder with this host's private folders and logs, seen from outside."""
        return self.folder / "hosts" / str(self.index)

    def runs(self) -> bool:
        return self.init is not None and self.init.runs()


def start_host(host: Host) -> Process:
    """Start the host's first process, which only stays alive; the kernel reaps the children that it inherits."""
    network = os.open(NETNS / host.namespace, os.O_RDONLY | os.O_CLOEXEC)
    for folder in PRIVATE_FOLDERS:
        (host.own_folder / folder).mkdir(parents=True, exist_ok=True)
        (host.folder / folder).mkdir(exist_ok=True)

    def become_a_host() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # kept by exec; children then leave no zombies
        if host.cores_quota_group:
            join(host.cores_quota_group)
        namespaces.enter(network, namespaces.NETWORK)
        namespaces.unshare(namespaces.MOUNT)
        namespaces.mount_own_proc()
        for folder in PRIVATE_FOLDERS:
            namespaces.bind(host.own_folder / folder, host.folder / folder)

    try:
        with lifeline(host.folder) as end:
            init = namespaces.start_in_pid_namespace(
                None,
                [_program("sleep"), "infinity"] if end is None else [_program("cat")],
                preexec_fn=become_a_host,
                env=os.environ | marked(host.folder),
                start_new_session=True,
                cwd="/",
                stdin=subprocess.DEVNULL if end is None else end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise ClusterError(
            f"No host can be made for node {host.node!r} ({error}); making one needs root, of a user namespace at "
            "least, and the right to mount /proc."
        ) from None
    finally:
        os.close(network)
    init.returncode = 0  # it is to outlive this object, which would warn otherwise; `end_all` reaps it
    return Process.of(init.pid)


def start_inside(
    host: Host,
    argv: Sequence[str],
    *,
    within_quota: bool = True,
    env: dict[str, str] | None = None,
    ends_with_us: bool = False,
    **popen: Any,
) -> subprocess.Popen[Any]:
    """Start `argv` in the host, in a session of its own, and return its `Popen`, whose pid is the outside's.

    `popen` is what `subprocess.Popen` takes. The environment (`env`, or this process's) gets what Ray needs to join,
    and TensorFlow a number of threads. If the process `ends_with_us`, the kernel kills it when this process dies.
    Raises `ClusterError` when the host does not run, and `OSError` as Popen does.
    """
    if host.init is None or not host.init.runs():
        raise ClusterError(f"Node {host.node!r} does not run; start it again or make the emulated cluster anew.")
    proc = Path("/proc") / str(host.init.pid) / "ns"
    folder = os.getcwd() if popen.get("cwd") is None else os.path.abspath(popen.pop("cwd"))
    network = os.open(proc / "net", os.O_RDONLY | os.O_CLOEXEC)
    mount = os.open(proc / "mnt", os.O_RDONLY | os.O_CLOEXEC)

    def move_in() -> None:
        if within_quota and host.cores_quota_group:
            join(host.cores_quota_group)
        namespaces.enter(network, namespaces.NETWORK)
        namespaces.enter(mount, namespaces.MOUNT)
        os.chdir(folder)

    try:
        child = namespaces.start_in_pid_namespace(
            proc / "pid",
            argv,
            env=environment(host, env),
            preexec_fn=move_in,
            start_new_session=True,
            ends_with_us=ends_with_us,
            **popen,
        )
    finally:
        os.close(network)
        os.close(mount)
    remember_to_reap(child)
    return child


def environment(host: Host, base: dict[str, str] | None = None) -> dict[str, str]:
    """The environment that a Ray driver or node in the host needs, on top of `base` or of this process's environment.

    TensorFlow would start a thread for every core of the machine, so it is given a number unless the user set one.
    A proxy of the user's is bypassed between hosts: it runs outside their network.
    """
    inherited = os.environ if base is None else base
    return {
        "TF_NUM_INTRAOP_THREADS": str(max(1, int(host.cores))),
        **inherited,
        **bypassing(inherited, [host.address, *host.peers]),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(host.folder / "token"),
        "RAY_ADDRESS": host.head_address,
        VARIABLE: str(host.folder / PHASES_FILE),
    }


def run_inside(host: Host, argv: Sequence[str], **popen: Any) -> int:
    """Run `argv` in the host to its end; return its exit status, 128 and the signal's number if one ended it.

    Each SIGINT, SIGTERM or SIGHUP that comes here is passed on, once, to all of its processes; a terminal's Ctrl-C
    would not reach them on its own, because they have a session of their own.
    """
    environment_of_command = {**(popen.pop("env", None) or os.environ), COMMAND: host.node}
    child: subprocess.Popen[Any] | None = None
    early: list[int] = []

    def pass_on(number: int) -> None:
        if child is None:
            early.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)

    with signals_go_to(pass_on):
        child = start_inside(host, argv, env=environment_of_command, ends_with_us=True, **popen)
        for number in early:
            pass_on(number)
        status = child.wait()
    return status if status >= 0 else 128 - status


def _program(name: str) -> str:
    path = shutil.which(name)
    if not path:
        raise ClusterError(f"A host's first process is `{name}`, which is not on the PATH; install coreutils.")
    return path

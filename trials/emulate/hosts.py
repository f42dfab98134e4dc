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

from autosync.engine.core.proxies import bypassing
from autosync.errors import ClusterError
from trials.emulate import isolation as namespaces
from trials.emulate.lifeline import lifeline
from trials.emulate.listed import cluster_mark
from trials.emulate.network import NETNS
from trials.emulate.processes import Process, remember_to_reap
from trials.emulate.quotas import join
from trials.phases import VARIABLE
from trials.signals import signals_go_to

HEAD_PORT = 6379

COMMAND = "AUTOSYNC_COMMAND"
"""The environment variable of a command that a user runs on a host, and of all its descendants."""

PHASES_FILE = "phases.json"
"""The file in the emulated cluster's folder with the start of each phase, if its links change."""

PRIVATE_FOLDERS = ("home", "ray", "tmp")
"""Folders of the emulated cluster that have the same path in every host, with different content."""


@dataclass(frozen=True)
class Host:
    """One emulated machine."""

    node: str
    index: int
    address: str
    namespace: str
    folder: Path
    """The emulated cluster's folder; seen from the host, its `home`, `ray` and `tmp` are the host's own."""
    head_address: str
    """The address of Ray's head, HOST:PORT."""
    cores: float = 1.0
    """The host's share of this machine's cores when all hosts compute at once."""
    cores_quota_group: Path | None = None
    """The control group that limits the host's cores; None without a limit."""
    init: Process | None = None
    """The host's first process; all other processes of the host end with it. None before the start."""
    peers: tuple[str, ...] = ()
    """The addresses of all hosts of the emulated cluster."""

    @property
    def private_folder(self) -> Path:
        """The folder with this host's private folders and logs, seen from outside."""
        return self.folder / "hosts" / str(self.index)

    def runs(self) -> bool:
        return self.init is not None and self.init.runs()


def start_host(host: Host) -> Process:
    """Start the host's first process, which only stays alive; the kernel reaps the children that it inherits."""
    network = os.open(NETNS / host.namespace, os.O_RDONLY | os.O_CLOEXEC)
    for folder in PRIVATE_FOLDERS:
        (host.private_folder / folder).mkdir(parents=True, exist_ok=True)
        (host.folder / folder).mkdir(exist_ok=True)

    def become_a_host() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # exec keeps this setting, and children then leave no zombies
        if host.cores_quota_group:
            join(host.cores_quota_group)
        namespaces.enter(network, namespaces.NETWORK)
        namespaces.unshare(namespaces.MOUNT)
        namespaces.mount_own_proc()
        for folder in PRIVATE_FOLDERS:
            namespaces.bind(host.private_folder / folder, host.folder / folder)

    try:
        with lifeline(host.folder) as end:
            init = namespaces.start_in_pid_namespace(
                None,
                [_program("sleep"), "infinity"] if end is None else [_program("cat")],
                preexec_fn=become_a_host,
                env=os.environ | cluster_mark(host.folder),
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
    init.returncode = 0  # the process must outlive this object, which would warn otherwise; `end_all` reaps it
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
    """Start `argv` in the host, in a session of its own, and return its `Popen`, whose pid is that of the outside.

    `popen` are arguments of `subprocess.Popen`. The environment (`env`, or this process's) is extended by the variables
    that Ray needs to join, and by a number of threads for TensorFlow. If the process `ends_with_us`, the kernel kills
    it when this process dies. Raises `ClusterError` if the host does not run, and `OSError` as Popen does.
    """
    if host.init is None or not host.init.runs():
        raise ClusterError(f"Node {host.node!r} does not run; start it again, or make the emulated cluster again.")
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
    """Return the environment of a Ray driver or node in the host, based on `base` or on this process's environment.

    TensorFlow would start a thread for every core of the machine, so its number of threads is set unless the user set
    one. The user's proxy is bypassed between hosts, because it runs outside their network.
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
    """Run `argv` in the host to its end; return its exit status, or 128 plus the signal's number if a signal ended it.

    Each SIGINT, SIGTERM or SIGHUP received here is passed on, once, to all of its processes. A terminal's Ctrl-C would
    not reach them by itself, because they have their own session.
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

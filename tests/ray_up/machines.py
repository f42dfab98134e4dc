"""Machines that `ray up` reaches by ssh: emulated hosts, each with its own files, Python environment and sshd."""

from __future__ import annotations

import contextlib
import getpass
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.errors import ClusterError
from trials.emulate import Host, run_inside, start_inside
from trials.emulate.network import processes_in
from trials.emulate.requirements import Machine

__all__ = [
    "BROUGHT",
    "HOME",
    "PROJECT",
    "Done",
    "lacking",
    "make_key",
    "open_to",
    "ray_processes",
    "run_as_operator",
    "separate",
    "start_as_operator",
]

PROJECT = Path(__file__).resolve().parents[2]
HOME = Path("/root")
BROUGHT = HOME / "autosync-project"
"""The folder to which the cluster file brings the project."""

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
TOOLS = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client", "rsync": "rsync"}

SSHD_CONFIG = """
HostKey /run/ssh_host_key
PidFile none
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
"""

SET_FOR_TESTS = """
export RAY_gcs_rpc_server_reconnect_timeout_s=8
export RAY_enable_worker_prestart=0 RAY_prestart_worker_first_driver=0
"""
"""Settings for a short test.

Ray's minute for noticing that the head is gone would be the longest step of all, and idle workers would be started for
each processor of each machine, which all share the same two.
"""

PIP_CONFIG = """
[global]
no-index = true
no-build-isolation = false
"""
"""pip reads the last line as `build_isolation = False`: the borrowed setuptools builds, because there is no index."""


def lacking() -> str | None:
    """Return this machine's first missing requirement for `ray up` onto emulated hosts, as a sentence; None if there is
    none.
    """
    if lacks := Machine.here().lacks():
        return f"No cluster can be emulated here: {lacks}."
    for tool, package in TOOLS.items():
        if not _found(tool):
            return f"The command {tool!r} is missing; on Debian: apt install {package}."
    if Path("~").expanduser() != HOME:
        return f"The home of {getpass.getuser()} is not {HOME}, where the hosts would have theirs."
    return None


def separate(host: Host) -> None:
    """Give the host its own home, /tmp and /run, and hide the project from it.

    The host keeps this machine's programs and the Python environment of this process, which cannot be changed. Raises
    `ClusterError`.
    """
    hidden = {
        HOME: host.private_folder / "home",
        Path("/run"): host.private_folder / "run",
        Path("/tmp"): host.private_folder / "tmp",
    }
    if not any(PROJECT.is_relative_to(folder) for folder in hidden):
        hidden = {PROJECT: host.private_folder / "nothing", **hidden}
    for content in hidden.values():
        content.mkdir(exist_ok=True)
    commands: list[list[Any]] = []
    for path in {Path(sys.prefix), Path(sys.base_prefix)}:
        shown = next((new / path.relative_to(old) for old, new in hidden.items() if path.is_relative_to(old)), path)
        shown.mkdir(parents=True, exist_ok=True)
        commands += [["mount", "--bind", path, shown], ["mount", "-o", "remount,bind,ro", shown]]
    commands += [["mount", "--rbind", new, old] for old, new in hidden.items()]
    # Ray finds a machine's own address by looking up the default route, although nothing is sent there.
    commands += [["ip", "route", "add", "default", "dev", "eth0"]]
    script = " && ".join(shlex.join(map(str, command)) for command in commands)
    if run_inside(host, ["sh", "-c", script], cwd="/") != 0:
        raise ClusterError(f"Node {host.node!r} cannot be given files of its own; `{script}` failed.")


def make_key(folder: Path, name: str) -> str:
    """Make a key pair without a passphrase in `folder`; return its public half."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    return (folder / f"{name}.pub").read_text(encoding="ascii")


def open_to(host: Host, public_key: str) -> None:
    """Set up the host's home like a machine with the project's requirements installed; start sshd."""
    home, run = host.private_folder / "home", host.private_folder / "run"
    home.chmod(0o700)
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh" / "authorized_keys").write_text(public_key, encoding="ascii")
    for name in (".bashrc", ".profile"):
        skeleton = Path("/etc/skel") / name
        text = skeleton.read_text(encoding="utf-8") if skeleton.exists() else ""
        (home / name).write_text(text + SET_FOR_TESTS * (name == ".bashrc"), encoding="utf-8")
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text(PIP_CONFIG, encoding="ascii")
    _make_environment(home / BROUGHT.name / ".venv")
    make_key(run, "ssh_host_key")
    (run / "sshd").mkdir(mode=0o755)
    (run / "sshd_config").write_text(SSHD_CONFIG, encoding="ascii")
    with (host.private_folder / "sshd.log").open("wb") as log:
        start_inside(
            host, [_found("sshd"), "-D", "-e", "-f", "/run/sshd_config"],
            cwd="/", env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip


def start_as_operator(host: Host, *command: str, **popen: Any) -> subprocess.Popen[Any]:
    """Start `command` as the operator, in the project's copy in the operator's home."""
    path = f"{Path(sys.executable).parent}:{SYSTEM_PATH}"
    clean = ["env", "-i", f"HOME={HOME}", f"PATH={path}", "LANG=C.UTF-8", "TERM=dumb", "RAY_AUTH_MODE=token"]
    return start_inside(
        host, [*clean, "sh", "-c", f"cd {BROUGHT} && exec {shlex.join(command)}"],
        cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **popen,
    )  # fmt: skip


@dataclass(frozen=True)
class Done:
    """The exit status of a command, and its output."""

    status: int
    said: str


def run_as_operator(host: Host, *command: str, seconds: float) -> Done:
    """Run `command` to its end, or kill it after `seconds`, with status 124."""
    started = start_as_operator(host, *command)
    try:
        said, _ = started.communicate(timeout=seconds)
        return Done(started.returncode, said)
    except subprocess.TimeoutExpired:
        started.kill()
        said, _ = started.communicate()
        return Done(124, said)


def ray_processes(host: Host) -> list[str]:
    """Return the command lines of Ray's processes on the host."""
    lines = []
    for process in processes_in(host.namespace):
        with contextlib.suppress(OSError):
            lines.append((Path("/proc") / str(process.pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return [line for line in lines if re.search(r"raylet|gcs_server|ray::|/ray/dashboard/|/ray/_private/", line)]


def _make_environment(folder: Path) -> None:
    """Make a virtual environment that sees this process's packages, but not the targets of their links, such as the
    project.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    paths = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site_packages = folder / "lib" / version / "site-packages"
    (site_packages / "borrowed.pth").write_text("\n".join(sorted(paths)), encoding="utf-8")
    ray = folder / "bin" / "ray"
    python = BROUGHT / ".venv" / "bin" / "python"
    ray.write_text(f"#!{python}\nfrom ray.scripts.scripts import main\nmain()\n", encoding="utf-8")
    ray.chmod(0o755)


def _found(tool: str) -> str:
    return shutil.which(tool, path=SYSTEM_PATH) or ""

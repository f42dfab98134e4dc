"""The status of an emulated cluster: a line for each node, and notes on the whole."""

from dataclasses import dataclass
from pathlib import Path

from trials.emulate.changes import cluster_now, phase_lines
from trials.emulate.hosts import Host
from trials.emulate.lifecycle import Emulated, congestion_control
from trials.emulate.ray_nodes import ray_nodes_of
from trials.emulate.state import read_state
from trials.emulate.wiring import Wiring

HEADER = ("node", "address", "up", "down", "cores", "processes", "memory", "Ray")


@dataclass(frozen=True)
class Usage:
    """A host's processes and their memory; shared pages are counted proportionally (PSS)."""

    processes: int
    memory_bytes: int


def usage_of(host: Host) -> Usage:
    """Return the usage according to /proc; zero for a host that does not run."""
    if host.init is None or not host.init.runs():
        return Usage(0, 0)
    namespace = Path(f"/proc/{host.init.pid}/ns/pid").readlink()
    processes = memory_bytes = 0
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and (folder / "ns" / "pid").readlink() == namespace:
                memory_bytes += _proportional_bytes(folder)
                processes += 1
        except OSError:
            continue  # the process has ended meanwhile
    return Usage(processes, memory_bytes)


def status_lines(emulated: Emulated) -> list[str]:
    """Return a table of the nodes, followed by notes on phases, network and dashboard."""
    state, head = read_state(emulated.name), emulated.hosts[0]
    wiring = Wiring(emulated.name, cluster_now(state) if state else emulated.cluster)
    known = ray_nodes_of(head) if emulated.dashboard_url and head.runs() else []
    alive = {node["address"] for node in known if node["alive"]}
    rows = [HEADER]
    for host, node in zip(emulated.hosts, emulated.cluster.nodes, strict=True):
        pair, usage = wiring.node_pair(host.index), usage_of(host)
        rows.append(
            (
                node.name,
                node.address,
                _rate(pair.a.gbit_per_s if pair else None),
                _rate(pair.b.gbit_per_s if pair else None),
                f"{node.cores:g}",
                str(usage.processes),
                f"{usage.memory_bytes / 1e6:.0f} MB",
                ("alive" if node.address in alive and usage.processes else "dead")
                if emulated.dashboard_url
                else "not started",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*table, *(phase_lines(state) if state else ()), *_notes(emulated)]


def _notes(emulated: Emulated) -> list[str]:
    running = [host for host in emulated.hosts if host.runs()]
    algorithms = sorted({congestion_control(host) for host in running})
    notes = [
        f"TCP congestion control: {', '.join(algorithms) or 'no node runs'}.",
        "Rates are shaped, delay is not: latency is that of this machine.",
    ]
    if emulated.dashboard_url:
        notes.append(f"Ray: {emulated.ray_address} inside. Dashboard: {emulated.dashboard_url}")
        notes.append(f"Token that the dashboard asks for: in {emulated.token_path}")
    return notes


def _rate(gbit_per_s: float | None) -> str:
    if gbit_per_s is None:
        return "as is"
    return f"{gbit_per_s:g} Gbit/s" if gbit_per_s >= 1 else f"{gbit_per_s * 1000:g} Mbit/s"


def _proportional_bytes(folder: Path) -> int:
    for line in (folder / "smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0

"""Clusters emulated on one machine: network namespaces, shaped links, and a real Ray node on each host.

    with emulated("net", parse_emulation("4x200mbit")) as cluster:
        run_inside(cluster.hosts[0], [sys.executable, "-m", "autosync.tune", "--model", "bert"])

A host has its own address, processes, home, Ray folder and CPU quota, and shares the machine's other files, its memory
and its cores. Links have the stated rate in each direction. Latency is not emulated, because many kernels lack netem.
Needs Linux, the commands `ip` and `tc`, and root; a program of an ordinary user calls `begin_as_root` first, which
restarts the program as root of a user namespace.
"""

from trials.emulate.faults import add_node, kill_node, restart_node, set_link
from trials.emulate.hosts import Host, run_inside, start_inside
from trials.emulate.lifecycle import Emulated, down, emulated, find, up
from trials.emulate.rootless import begin_as_root

__all__ = [
    "Emulated",
    "Host",
    "add_node",
    "begin_as_root",
    "down",
    "emulated",
    "find",
    "kill_node",
    "restart_node",
    "run_inside",
    "set_link",
    "start_inside",
    "up",
]

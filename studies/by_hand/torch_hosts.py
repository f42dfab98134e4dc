"""Ranks of a benchmark of PyTorch: one process on every node of an emulated cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import click

from autosync.spec import ClusterSpec
from trials.emulate import emulated
from trials.emulate.hosts import start_inside

PORT = 29431

PLAN = "BENCH_PYTORCH"
"""The environment variable by which the ranks get their work, as JSON."""


def output_of_ranks(cluster: ClusterSpec, module: str, plan: dict[str, Any]) -> Any:
    """Run `module` on all nodes of `cluster` with `plan` and the cluster; return the JSON that rank 0 prints."""
    with emulated("bench-torch", cluster, start_ray=False) as made:
        work = json.dumps({**plan, "cluster": made.cluster.to_json()})
        ranks = []
        for rank, host in enumerate(made.hosts):
            environment = os.environ | {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(made.hosts)),
                "MASTER_ADDR": made.hosts[0].address,
                "MASTER_PORT": str(PORT),
                "GLOO_SOCKET_IFNAME": "eth0",
                PLAN: work,
            }
            argv = [sys.executable, "-m", module]
            ranks.append(start_inside(host, argv, env=environment, stdout=subprocess.PIPE if rank == 0 else None))
        output, _ = ranks[0].communicate()
        statuses = [process.wait() for process in ranks]
    if any(statuses):
        raise click.ClickException(f"the ranks ended with {statuses}")
    return json.loads(output)

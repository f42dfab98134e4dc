"""Run on the head by `ray submit`: waits for the given number of nodes, and prints the project that each of them
uses.
"""

from __future__ import annotations

import json
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

WAIT_SECONDS = 240.0


@ray.remote(num_cpus=0)
def look() -> dict[str, str]:
    """Return the folder from which this node would import the project, and its Python."""
    import autosync

    return {"autosync": autosync.__file__, "python": sys.executable}


def living() -> list[dict]:
    return [node for node in ray.nodes() if node["Alive"]]


def main(count: int) -> None:
    ray.init(address="auto", log_to_driver=False)
    deadline = time.monotonic() + WAIT_SECONDS
    while len(living()) < count and time.monotonic() < deadline:
        time.sleep(0.5)
    for node in living():
        there = look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        print("NODE", json.dumps({"address": node["NodeManagerAddress"], **ray.get(there)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]))

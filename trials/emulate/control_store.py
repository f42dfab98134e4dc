"""Asks a Ray control store which nodes are alive, in a process that can import Ray and reach the store."""

import json
import sys
import time
from typing import Any


def main(address: str, seconds: float, wait_for: list[str]) -> None:
    """Print the nodes as JSON, as soon as all of `wait_for` are alive or `seconds` have passed."""
    from ray._private.state import GlobalState
    from ray._raylet import GcsClientOptions  # type: ignore[attr-defined]

    state: Any = GlobalState()
    options = GcsClientOptions.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
    state._initialize_global_state(options)
    deadline = time.monotonic() + seconds
    while True:
        nodes = [
            {"address": node["NodeManagerAddress"], "alive": bool(node["Alive"]), "labels": node.get("Labels", {})}
            for node in state.node_table()
        ]
        alive = {node["address"] for node in nodes if node["alive"]}
        if alive >= set(wait_for) or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    sys.stdout.write(json.dumps(nodes))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])

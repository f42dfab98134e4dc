"""Checks that memory stays flat over hundreds of trials in one set of processes.

    python -m studies.by_hand.bench_memory --model mlp --trials 300

Needs root. Four servers run on emulated nodes with links as fast as the machine, and one client. Trials run the
baselines in turn, two steps each. As in a search, the client reconnects after every `--connection` trials, which frees
the memory that servers keep for each trial. Every `--every` trials the script reads the memory that the client and the
servers have written to. It prints the readings and the slope of a straight line through the second half of them.
"""

from __future__ import annotations

from itertools import cycle

import click
import numpy as np

from studies.by_hand.peers.engine import start_engine
from studies.by_hand.peers.links import star

NODES, LATER_STEPS = 4, 2


@click.command()
@click.option("--model", default="mlp", show_default=True)
@click.option("--trials", default=300, show_default=True)
@click.option("--every", default=20, show_default=True)
@click.option("--connection", default=150, show_default=True, help="Trials per connection.")
@click.option("--name", default="bench-memory", show_default=True, help="The emulated cluster's name.")
def main(model: str, trials: int, every: int, connection: int, name: str) -> None:
    """Print the memory of client and servers over trials."""
    from autosync.baselines import BASELINES
    from trials.emulate import emulated

    readings: list[tuple[int, float, float]] = []
    with emulated(name, star(f"{NODES}xunshaped"), start_ray=False) as made, start_engine(made) as engine:
        spec = engine.load(model)
        strategies = cycle({baseline(spec, made.cluster): None for baseline in BASELINES.values()})
        for trial in range(1, trials + 1):
            if trial > 1 and trial % connection == 1:
                engine.reconnect(model)
            engine.realize(next(strategies))
            engine.run(0, LATER_STEPS)
            if trial % every == 0:
                client, servers = engine.memory_bytes()
                readings.append((trial, client / 1e6, float(np.mean(servers)) / 1e6))
                print(
                    f"{trial:5} trials: client {client / 1e6:7.1f} MB, a server {readings[-1][2]:7.1f} MB", flush=True
                )
    later = np.array(readings[len(readings) // 2 :])
    for column, process in ((1, "client"), (2, "a server")):
        slope = np.polyfit(later[:, 0], later[:, column], 1)[0]
        print(f"{process}: {slope * 100:+.2f} MB in 100 trials over the second half")


if __name__ == "__main__":
    main()

"""The memory needed to fit a simulator on very many synthetic records, streamed by Ray Data.

    python -m studies.by_hand.bench_records make /tmp/many --records 1000000 --strategies 100000
    python -m studies.by_hand.bench_records fit /tmp/many --workers 2

`make` writes records of a small model on four clusters, with the step times of the closed form plus noise. `fit` runs
`autosync pretrain` and prints, every `--every` seconds, the memory of its process and of all processes that it started,
without shared memory, and at the end the maxima.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import psutil

ROWS_A_FILE = 20_000


@click.group()
def main() -> None:
    """Very many records."""


@main.command()
@click.argument("folder", type=Path)
@click.option("--records", "count", default=1_000_000, show_default=True)
@click.option("--strategies", default=100_000, show_default=True, help="Different strategies; each has many records.")
def make(folder: Path, count: int, strategies: int) -> None:
    """Write synthetic records to FOLDER."""
    from autosync.dataset.files import write_file
    from autosync.dataset.store import RecordStore
    from search_spaces.default import SPACE
    from tests import cases

    RecordStore.create(folder)
    model, rng = cases.mlp_model(), random.Random(0)
    clusters = [cases.star_cluster(2), cases.star_cluster(3), cases.star_cluster(4), cases.rack_cluster()]
    pools = []
    for cluster in clusters:
        space = SPACE.bind(model, cluster)
        pools.append(_Pool(model, cluster, [space.sample(rng) for _ in range(strategies // len(clusters))]))
        print(f"{len(pools)} of {len(clusters)} clusters have strategies", flush=True)
    noise = np.random.default_rng(0)
    for begin in range(0, count, ROWS_A_FILE):
        table = _table(pools, range(begin, min(begin + ROWS_A_FILE, count)), noise)
        write_file(folder, f"records-made-{begin:09}.parquet", table)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{count} records, {size / 1e6:.0f} MB, in {folder}")


@main.command()
@click.argument("folder", type=Path)
@click.option("--workers", type=int, help="The option of autosync pretrain.")
@click.option("--every", default=30.0, show_default=True, help="Seconds between lines.")
def fit(folder: Path, workers: int | None, every: float) -> None:
    """Fit the linear network on the records in FOLDER, and print the memory use."""
    with TemporaryDirectory() as out:
        command = [sys.executable, "-m", "autosync", "pretrain", "--data", str(folder), "--out", out]
        begin, most, printed_at = time.monotonic(), {"own": 0.0, "all": 0.0, "largest other": 0.0}, 0.0
        with subprocess.Popen([*command, *([] if workers is None else ["--workers", str(workers)])]) as process:
            while process.poll() is None:
                memory = _memory(process.pid)
                most = {name: max(most[name], memory[name]) for name in most}
                if time.monotonic() - printed_at > every:
                    printed_at = time.monotonic()
                    print(f"{printed_at - begin:6.0f} s: " + _in_words(memory), flush=True)
                time.sleep(0.5)
        print(f"In {time.monotonic() - begin:.0f} s, status {process.returncode}; at most: {_in_words(most)}")


class _Pool:
    """Strategies of a cell, in the form of rows."""

    def __init__(self, model: Any, cluster: Any, strategies: list[Any]) -> None:
        from autosync.cost import AnalyticSimulator
        from autosync.spec import canonical_json

        self.model, self.cluster = model, cluster
        self.json = [canonical_json(strategy.to_json()) for strategy in strategies]
        self.digests = [strategy.digest for strategy in strategies]
        self.log_seconds = AnalyticSimulator().predict(model, cluster, strategies)
        self.replicas = [len(strategy.replicas) for strategy in strategies]
        self.about = canonical_json(model.to_json()), canonical_json(cluster.to_json())


def _table(pools: list[_Pool], numbers: range, noise: np.random.Generator) -> Any:
    import pyarrow as pa

    from autosync.dataset import SCHEMA
    from autosync.spec import TimingProtocol, canonical_json

    protocol = TimingProtocol(warmup_steps=2, timed_steps=3)
    fixed = {
        "outcome": "ok", "reason": "", "purpose": "search", "label": "made", "seed": 0, "setup_seconds": 0.5,
        "total_seconds": 1.0, "warmup_steps": 2, "predicted_seconds": None, "final_loss": 0.5, "host": "made",
        "versions": "{}", "protocol_json": canonical_json(protocol.to_json()), "sequence": None,
        "load_average": None, "time": "real", "numbers": "real", "pace_json": None, "phases": None,
    }  # fmt: skip
    rows = []
    for number in numbers:
        cell = number % len(pools)
        pool = pools[cell]
        place = number // len(pools) % len(pool.json)
        steps = np.exp(pool.log_seconds[place] + 0.02 * noise.standard_normal() + 0.01 * noise.standard_normal(3))
        varying = {
            "record_id": hashlib.sha256(f"made {number}".encode()).hexdigest()[:32],
            "model_name": pool.model.name,
            "model_digest": pool.model.digest,
            "cluster_digest": pool.cluster.digest,
            "strategy_digest": pool.digests[place],
            "replicas": pool.replicas[place],
            "run": f"made-{number // 400}/mlp@cluster{cell}",
            "started_at": 1.7e9 + 2.0 * number,
            "step_seconds": steps.tolist(),
            "median_seconds": float(np.median(steps)),
            "mean_seconds": float(steps.mean()),
            "model_json": pool.about[0],
            "cluster_json": pool.about[1],
            "strategy_json": pool.json[place],
        }
        rows.append(fixed | varying)
    return pa.Table.from_pylist(rows, schema=SCHEMA.arrow)


def _memory(pid: int) -> dict[str, float]:
    """Return the bytes of the process, of all processes without shared memory, and of the largest child."""
    main_bytes, child_bytes = 0.0, [0.0]
    try:
        process = psutil.Process(pid)
        main_bytes = process.memory_info().rss
        for child in process.children(recursive=True):
            try:
                child_bytes.append(child.memory_full_info().uss)
            except psutil.Error:
                continue
    except psutil.Error:
        pass
    return {"own": main_bytes, "all": main_bytes + sum(child_bytes), "largest other": max(child_bytes)}


def _in_words(memory: dict[str, float]) -> str:
    return ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in memory.items())


if __name__ == "__main__":
    main()

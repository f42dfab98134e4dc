"""Searches with a barrier after each step, and searches that may omit the barrier; their strategies timed in turns.

    python -m studies.by_hand.bench_barrier_search --model resnet-mini --cluster topologies/paced_two_racks.yaml

Needs root, and the machine alone. For each model on each cluster, `autosync tune` searches twice with equally many
trials: in the model's space, and in the same space without `overlap_next_forward`. Then `bench_barrier` times both
strategies, and any further strategies, alternately.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import click

from autosync.errors import SpaceError
from autosync.runs.run import Run, read_run
from autosync.space import Space
from autosync.spec import Strategy
from autosync.stats.accuracy import strategy_medians
from autosync.zoo.names import default_space
from search_spaces import load_space

MODELS = ("resnet-mini", "transformer-lm-mini", "bert-mini", "vgg-mini")
CLUSTERS = tuple(Path(f"topologies/paced_{name}.yaml") for name in ("two_racks", "three_racks", "uniform"))
SEARCHES = ("barrier", "free")


def __getattr__(name: str) -> Space:
    """The space called `name` without steps that overlap, as `--space` of this module names it."""
    try:
        return replace(load_space(name), overlap=False)
    except SpaceError as error:
        raise AttributeError(name) from error


@click.command()
@click.option("--model", "models", multiple=True, default=MODELS, show_default=True)
@click.option("--cluster", "clusters", multiple=True, type=Path, default=CLUSTERS, show_default=True)
@click.option("--beside", multiple=True, default=("rabenseifner/250",), show_default=True, help="Further strategies.")
@click.option("--trials", default=24, show_default=True, help="Trials of each search.")
@click.option("--rounds", default=6, show_default=True, help="Turns of each step in the comparison.")
@click.option("--out", type=Path, default=Path("runs/barrier"), show_default=True, help="Folder of the searches.")
def main(
    models: Sequence[str], clusters: Sequence[Path], beside: Sequence[str], trials: int, rounds: int, out: Path
) -> None:
    """Search twice per cell, and time the two strategies."""
    for model, cluster in product(models, clusters):
        found = [_search(model, cluster, trials, out / f"{model}-{cluster.stem}-{name}", name) for name in SEARCHES]
        command = [sys.executable, "-m", "studies.by_hand.bench_barrier", "--model", model, "--cluster", str(cluster)]
        for strategy in [*map(str, found), *beside]:
            command += ["--strategy", strategy]
        subprocess.run([*command, "--rounds", str(rounds)], check=True)


def _search(model: str, cluster: Path, trials: int, out: Path, name: str) -> Path:
    """Search unless the folder `out` has a result; the file of the fastest strategy that the search may return."""
    file = out / "fastest.json"
    if not file.exists():
        space = default_space(model)
        command = [sys.executable, "-m", "autosync.tune", "--model", model, "--framework", "pytorch"]
        command += ["--emulate", str(cluster), "--trials", str(trials), "--out", str(out), "--data", str(out / "data")]
        command += ["--warmup", "2", "--steps", "8", "--rounds", "2"]
        command += ["--space", f"{__spec__.name}:{space}"] if name == "barrier" else []
        subprocess.run(command, check=True)
        file.write_text(json.dumps(_fastest(read_run(out, out / "data"), may_overlap=name == "free").to_json()))
    return file


def _fastest(run: Run, may_overlap: bool) -> Strategy:
    """The strategy with the least median over trials and finals. Baselines that overlap are timed in any search."""
    strategies = {record.strategy.digest: record.strategy for record in run.trials}
    medians = strategy_medians([*run.trials, *run.finals])
    allowed = [digest for digest in medians if may_overlap or not strategies[digest].overlap_next_forward]
    return strategies[min(allowed, key=medians.__getitem__)]


if __name__ == "__main__":
    main()

"""Runs whole searches under time budgets, in virtual time: `python studies/by_hand/bench_budgets.py --out
runs/budgets`.

A search runs like `autosync tune --time-budget`, from its first trial to its verdict, with the trial loop, the campaign
and the finals of the checkout in PYTHONPATH. Only time is simulated. A step takes the replay's prediction times random
factors for the strategy (8 %), the trial (3 %), the step (4 %) and, in one trial of ten, other work on the machine (up
to 1.5). The search is guided by the closed form, whose errors are larger than these factors. The script does not import
the tests, so that an older checkout can run it too:

    git worktree add ../before 85c2f16
    PYTHONPATH=../before python studies/by_hand/bench_budgets.py --name before --out runs/budgets
    PYTHONPATH=. python studies/by_hand/bench_budgets.py --name now --out runs/budgets
    PYTHONPATH=. python studies/by_hand/bench_budgets.py --out runs/budgets --show

`--show` prints the table of all `NAME.json` in `--out`, as medians over seeds. *True* is the noise-free speed-up of the
winner (or of the best candidate) over the best baseline. A gain is *proven* if the verdict is beyond the noise.
"""

import argparse
import hashlib
import json
import math
import statistics
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console

import autosync.tune.composing as composing
import autosync.tune.finishing as finishing
import autosync.tune.job as jobs
from autosync.baselines import BASELINES, different_strategies
from autosync.cost import Replay
from autosync.dataset import RecordStore
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.tune.directory import RunDirectory
from autosync.tune.job import Job
from autosync.tune.options import TuneOptions
from trials.clock import Environment
from trials.cluster.file import cluster_to_emulate
from trials.trial import TrialRequest, TrialSetup, run_trial

ROOT = Path(__file__).parents[2]
THIN = """
link: 1gbit
racks:
  left: {up: 60mbit, down: 60mbit}
  right: {up: 60mbit, down: 60mbit}
nodes:
  - {count: 2, rack: left}
  - {count: 2, rack: right}
"""
CELLS = {
    "bert-mini on two racks, thin uplink": ("bert-mini", THIN),
    "bert-mini on paced_two_racks": ("bert-mini", "topologies/paced_two_racks.yaml"),
    "ncf-mini on uniform_1gbit": ("ncf-mini", "topologies/uniform_1gbit.yaml"),
}
START, SETUP, BETWEEN, REPORT = 25.0, 2.5, 0.3, 4.0
"""Seconds before the first trial, to build a step, between trials, and of the report."""


@dataclass
class VirtualTime:
    """A clock that advances only when its seconds are set."""

    seconds: float = 0.0

    def start_trial(self, strategy_digest: str) -> None: ...

    def now(self) -> float:
        return self.seconds

    timestamp = monotonic = now


@dataclass
class VirtualStep:
    """A running strategy; each call advances the clock by the time of a step."""

    clock: VirtualTime
    seconds: float
    generator: np.random.Generator

    def __call__(self) -> float:
        self.clock.seconds += self.seconds * math.exp(0.04 * self.generator.standard_normal())
        return 0.5

    def close(self) -> None: ...


@dataclass
class VirtualFleet:
    """A back end with one lane and virtual time."""

    model: ModelSpec
    cluster: ClusterSpec
    seed: int
    clock: VirtualTime = field(default_factory=VirtualTime)
    addresses: frozenset[str] = frozenset()
    trials: int = 0

    def __len__(self) -> int:
        return 1

    def true_seconds(self, strategy: Strategy) -> float:
        """Return the noise-free step seconds."""
        number = int(hashlib.sha256(strategy.digest.encode()).hexdigest()[:8], 16)
        deviation = 0.08 * np.random.default_rng(number).standard_normal()
        (log_seconds,) = Replay().predict(self.model, self.cluster, [strategy])
        return float(math.exp(log_seconds + deviation))

    def realize(self, strategy: Strategy) -> VirtualStep:
        self.trials += 1
        generator = np.random.default_rng([self.seed, self.trials])
        seconds = self.true_seconds(strategy) * math.exp(0.03 * generator.standard_normal())
        if generator.random() < 0.1:
            seconds *= generator.uniform(1.0, 1.5)
        self.clock.seconds += SETUP
        return VirtualStep(self.clock, seconds, generator)

    def run(self, request: TrialRequest) -> RuntimeRecord:
        self.clock.seconds += BETWEEN
        return run_trial(self, request, TrialSetup(self.model, self.cluster, self.clock, Environment()))


def _observer() -> Any:
    """Return the observer of the search; an older checkout takes the console instead."""
    console = Console(file=StringIO(), width=200)
    try:
        from autosync.tune.terminal import TerminalObserver
    except ModuleNotFoundError:
        return console
    return TerminalObserver(console)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="now")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--budgets", type=float, nargs="+", default=[210.0, 420.0, 900.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cells", default="", help="only cells whose name contains this text")
    options = parser.parse_args()
    if options.show:
        show(options.out)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    models = {record.model.name: record.model for record in RecordStore(ROOT / "runtimes/records").read()}
    rows = []
    for cell, (model, topology) in CELLS.items():
        if options.cells not in cell:
            continue
        cluster = cluster_of(topology)
        for budget in options.budgets:
            for seed in range(options.seeds):
                rows.append({"cell": cell, "budget": budget} | run_search(models[model], cluster, budget, seed))
                print(json.dumps(rows[-1]), flush=True)
                (options.out / f"{options.name}.json").write_text(json.dumps(rows, indent=1))


def cluster_of(topology: str) -> ClusterSpec:
    if topology.endswith(".yaml"):
        return cluster_to_emulate(str(ROOT / topology))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.yaml"
        file.write_text(topology)
        return cluster_to_emulate(str(file))


def run_search(model: ModelSpec, cluster: ClusterSpec, budget: float, seed: int) -> dict[str, Any]:
    """Run one search and return its row of figures."""
    fleet = VirtualFleet(model, replace(cluster, nodes=tuple(replace(node, pace=None) for node in cluster.nodes)), seed)
    jobs.time = SimpleNamespace(monotonic=fleet.clock.now)  # type: ignore[attr-defined]
    composing.run_with_tune = lambda campaign, *_: campaign.run(fleet.run)  # type: ignore[assignment]
    composing.leaves_room = lambda *_: False  # type: ignore[assignment]
    finishing.report_run = lambda _job: None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        paths = {"out": out / "run", "data": out / "data"}
        options = TuneOptions.create(
            model=model.name, simulator="analytic", seed=seed, time_budget_seconds=budget, **paths
        )
        store, directory = RecordStore.create(options.data), RunDirectory.open(options)
        job = Job(options, directory, store, fleet, _observer(), -START)  # type: ignore[arg-type]
        composing.search(job, go_on=False)
        return row_of(fleet, store, json.loads((out / "run" / "result.json").read_text()))


def row_of(fleet: VirtualFleet, store: RecordStore, result: dict[str, Any]) -> dict[str, Any]:
    records, verdict = list(store.read()), result["verdict"]
    timed = [record for record in records if record.sequence is not None]
    turns = [record for record in records if record.sequence is None]
    strategies = {record.strategy.digest: record.strategy for record in records}
    baselines = different_strategies(BASELINES, fleet.model, fleet.cluster).values()
    best = min(map(fleet.true_seconds, baselines))
    return {
        "seconds": fleet.clock.seconds + START + REPORT,
        "baselines": sum(record.purpose == "baseline" for record in timed),
        "candidates": sum(record.purpose == "search" for record in timed),
        "turns": len(turns),
        "finals_seconds": sum(record.total_seconds for record in turns),
        "rounds": verdict["rounds"],
        "proven": verdict["beyond_noise"],
        "speedup": verdict["speedup"],
        "interval": verdict["speedup_interval"],
        "true": best / fleet.true_seconds(strategies[verdict["winner"]]),
        "true_candidate": best / fleet.true_seconds(strategies[verdict["candidate"] or verdict["winner"]]),
        "note": verdict["note"],
    }


def show(out: Path) -> None:
    """Print the medians over seeds of all results in `out`."""
    columns = ("seconds", "baselines", "candidates", "turns", "finals_seconds", "speedup", "true_candidate", "true")
    print("| cell | budget | which | " + " | ".join(columns).replace("_", " ") + " | most seconds | proven |")
    print("|---" * (len(columns) + 5) + "|")
    groups: dict[tuple[str, float, str], list[dict[str, Any]]] = defaultdict(list)
    for file in sorted(out.glob("*.json")):
        for row in json.loads(file.read_text()):
            groups[row["cell"], row["budget"], file.stem].append(row)
    for (cell, budget, name), rows in sorted(groups.items()):
        medians = [f"{statistics.median(row[column] for row in rows):.3g}" for column in columns]
        proven, most = sum(row["proven"] for row in rows), max(row["seconds"] for row in rows)
        print(f"| {cell} | {budget:g} | {name} | {' | '.join(medians)} | {most:.0f} | {proven} of {len(rows)} |")


if __name__ == "__main__":
    main()

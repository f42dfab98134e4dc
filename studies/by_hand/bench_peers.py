"""Compares whole training steps with TensorFlow's `MultiWorkerMirroredStrategy` and PyTorch's DDP over gloo.

    python -m studies.by_hand.bench_peers over 4x200mbit 4x1gbit 4xunshaped --out peers.json
    python -m studies.by_hand.bench_peers show peers.json

Needs root and torch. All systems train the same variables with the same arithmetic, optimizer and batch per replica, in
the same hosts over the same links. Every competitor's processes stay alive between turns. A pilot picks the best ways
of each system: for autosync the best two baselines; for DDP its default buckets or buckets of 1 MB, with or without
sparse tables. The picked ways then take turns (A/B/C/A/B/C...). DDP and the mirrored strategy report the slowest rank
of each step.

The columns are: the 95 % interval of the median over turns (the range, with under six); the ratio to the better of the
two peers in the same turn; compute alone (all replicas at once without reduction: `no_sync`, no strategy, or one
replica to reduce over; the slowest process's mean); the busiest link's bytes divided by the goodput of plain TCP in a
ring; the overhead over the larger of those two; processor seconds per step of all processes; and the bytes per step
counted on the busiest interface. If a system's bytes cannot be computed (sparse gradients), the counted bytes are used.
In both systems TensorFlow uses as many threads per operation as a host has cores of this machine. After an
interruption, the command resumes after the last finished model.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from autosync.spec import Strategy
from studies.by_hand.peers.contenders import Field, FieldEntry, field_of
from studies.by_hand.peers.links import ring_goodput, star
from studies.by_hand.peers.turns import ENOUGH_TURNS, cpu_seconds_a_step, median_step, spread, step_bytes, turns_of

MODELS = ("bert-mini", "vgg-mini", "ncf-mini")
STEPS, PILOT_STEPS = 10, 3
KEPT = {"autosync": 2, "mwms": 1, "ddp": 1}
"""The number of ways per system that the pilot picks."""


@click.group()
def main() -> None:
    """Whole training steps compared with peers."""


@main.command()
@click.argument("clusters", nargs=-1, required=True)
@click.option("--out", type=Path, required=True, help="JSON file of the results; existing results are kept.")
@click.option("--models", default=",".join(MODELS), show_default=True)
@click.option("--turns", default=ENOUGH_TURNS, show_default=True)
@click.option("--steps", default=STEPS, show_default=True, help="Timed steps in a turn.")
@click.option("--strategy", "files", type=Path, multiple=True, help="File of a further strategy to time; repeatable.")
@click.option("--name", default="bench-peers", show_default=True, help="The emulated cluster's name.")
def over(
    clusters: tuple[str, ...], out: Path, models: str, turns: int, steps: int, files: tuple[Path, ...], name: str
) -> None:
    """Time all systems on each of CLUSTERS: stars such as 4x200mbit, or 4xunshaped."""
    from trials.emulate import emulated

    added = [Strategy.from_json(json.loads(file.read_text())) for file in files]
    done = json.loads(out.read_text()) if out.exists() else {}
    for text in clusters:
        for model in models.split(","):
            if model in done.get(text, {}):
                continue
            with emulated(name, star(text), start_ray=False) as made:
                goodput = ring_goodput(made.hosts)
                with field_of(made, model, added) as field:
                    result = _time_field(field, made.hosts, turns, steps)
                result["goodput"] = [goodput, ring_goodput(made.hosts)]
            done.setdefault(text, {})[model] = result
            out.write_text(json.dumps(done))
            _print(text, model, result)


@main.command()
@click.argument("out", type=Path)
def show(out: Path) -> None:
    """Print the results in OUT."""
    for text, models in json.loads(out.read_text()).items():
        for model, result in models.items():
            _print(text, model, result)


def _time_field(field: Field, hosts: Any, turns: int, steps: int) -> dict[str, Any]:
    """Run all turns of the ways picked by the pilot, and of each system's compute alone."""
    entries, alone = field.entries(), field.computing()
    tried, faults = turns_of([entry.contender for entry in entries], hosts, 1, lambda _: PILOT_STEPS)
    pilot = {name: median_step(turn) for name, turn in tried.items()}
    picked = _pick(entries, pilot)
    contenders = [*(entry.contender for entry in picked), *alone.values()]
    timed, _ = turns_of(contenders, hosts, turns, lambda _: steps)
    return {
        "gradient_bytes": field.model.gradient_bytes,
        "pilot": pilot,
        "faults": faults,
        "entries": {e.contender.name: {"system": e.system, "least_bytes": e.least_bytes} for e in picked},
        "turns": {e.contender.name: timed[e.contender.name] for e in picked},
        "alone": {system: timed[contender.name] for system, contender in alone.items()},
    }


def _pick(entries: Iterable[FieldEntry], pilot: dict[str, float]) -> list[FieldEntry]:
    able = (entry for entry in entries if entry.contender.name in pilot)
    ranked = sorted(able, key=lambda entry: pilot[entry.contender.name])
    return [entry for system, count in KEPT.items() for entry in [e for e in ranked if e.system == system][:count]]


def _print(text: str, model: str, result: dict[str, Any]) -> None:
    goodput = statistics.median(result["goodput"])
    print(
        f"\n{text}, {model}: {result['gradient_bytes'] / 1e6:.2f} MB of gradients; plain TCP in a ring carries "
        f"{goodput * 8e-6:.0f} Mbit/s"
    )
    print(
        f"  {'':<32}{'ms':>8}  {'interval':>17}  {'of the better peer':>22}  {'alone':>7}{'link':>8}{'overhead':>9}"
        f"{'cpu s':>7}{'MB':>7}"
    )
    for name, turns in result["turns"].items():
        entry = result["entries"][name]
        alone = median_step(result["alone"][entry["system"]])
        counted = step_bytes(turns)
        link = (entry["least_bytes"] or counted) / goodput
        low, high = spread([statistics.median(turn["step_seconds"]) for turn in turns])
        interval = f"{low * 1e3:.1f} - {high * 1e3:.1f}"
        print(
            f"  {name:<32}{median_step(turns) * 1e3:8.1f}  {interval:>17}  {_against_peers(name, result):>22}  "
            f"{alone * 1e3:7.1f}{link * 1e3:8.1f}{median_step(turns) / max(alone, link):8.2f}x"
            f"{cpu_seconds_a_step(turns):7.2f}{counted / 1e6:7.2f}"
        )
    rest = {name: seconds for name, seconds in result["pilot"].items() if name not in result["turns"]}
    print("  in the pilot only: " + ", ".join(f"{name} {ms * 1e3:.0f}" for name, ms in rest.items()))


def _against_peers(name: str, result: dict[str, Any]) -> str:
    """Return the ratio to the better peer's median, and its interval over turns."""
    peers = [peer for peer, entry in result["entries"].items() if entry["system"] != "autosync"]
    best = min(peers, key=lambda peer: median_step(result["turns"][peer]))
    ratios = _ratios(result["turns"][name], result["turns"][best])
    low, high = spread(ratios)
    return f"{statistics.median(ratios):.2f} ({low:.2f} - {high:.2f})"


def _ratios(turns: Sequence[Any], peer_turns: Sequence[Any]) -> list[float]:
    """Return the ratios of the medians of corresponding turns."""
    return [
        statistics.median(turn["step_seconds"]) / statistics.median(peer_turn["step_seconds"])
        for turn, peer_turn in zip(turns, peer_turns, strict=True)
    ]


if __name__ == "__main__":
    main()

"""Whole training steps against TensorFlow's `MultiWorkerMirroredStrategy` and PyTorch's DDP over gloo.

    python -m tests.by_hand.bench_peers over 4x200mbit 4x1gbit 4xunshaped --out peers.json
    python -m tests.by_hand.bench_peers show peers.json

Needs root and torch. All train the same variables with the same arithmetic, optimizer and batch a replica, in the same
hosts over the same links. Every competitor's processes stay alive between turns. Of each system a pilot picks the best
ways (of autosync the best two baselines, of DDP its default buckets or buckets of 1 MB, with sparse tables or without);
those then take turns (A/B/C/A/B/C...). DDP and the mirrored strategy report the slowest rank of each step.

Beside each: the 95 % interval of the median over turns (the range, with under six); the ratio to the better of the
two peers in the same turn; compute alone (all replicas at once, nothing reduced: `no_sync`, no strategy, or one replica
to reduce over; the slowest process's mean); the busiest link's bytes over the goodput of plain TCP in a ring; the
overhead over the greater of those two; processor seconds a step of all processes; and the bytes a step counted on the
busiest interface. Where a system's bytes are not known by arithmetic (sparse gradients), those counted stand in for
them. TensorFlow has as many threads an operation, in both systems, as a host has cores of this machine. Interrupted, it
goes on after the last model that was done.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from autosync.spec import Strategy
from tests.by_hand.peers.contenders import Entry, Field, field_of
from tests.by_hand.peers.links import ring_goodput, star
from tests.by_hand.peers.turns import ENOUGH_TURNS, cpu_seconds_a_step, median_step, spread, step_bytes, turns_of

MODELS = ("bert-mini", "vgg-mini", "ncf-mini")
STEPS, PILOT_STEPS = 10, 3
KEPT = {"autosync": 2, "mwms": 1, "ddp": 1}
"""How many of each system's ways the pilot lets through."""


@click.group()
def main() -> None:
    """Whole training steps against peers."""


@main.command()
@click.argument("clusters", nargs=-1, required=True)
@click.option("--out", type=Path, required=True, help="JSON file of what was measured; what is in it is not redone.")
@click.option("--models", default=",".join(MODELS), show_default=True)
@click.option("--turns", default=ENOUGH_TURNS, show_default=True)
@click.option("--steps", default=STEPS, show_default=True, help="Timed steps in a turn.")
@click.option("--strategy", "files", type=Path, multiple=True, help="A strategy of your own to take part.")
@click.option("--name", default="bench-peers", show_default=True, help="The emulated cluster's name.")
def over(
    clusters: tuple[str, ...], out: Path, models: str, turns: int, steps: int, files: tuple[Path, ...], name: str
) -> None:
    """Time everyone on each of CLUSTERS: stars such as 4x200mbit, or 4xunshaped."""
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
                    found = _timed(field, made.hosts, turns, steps)
                found["goodput"] = [goodput, ring_goodput(made.hosts)]
            done.setdefault(text, {})[model] = found
            out.write_text(json.dumps(done))
            _print(text, model, found)


@main.command()
@click.argument("out", type=Path)
def show(out: Path) -> None:
    """Print what OUT holds."""
    for text, models in json.loads(out.read_text()).items():
        for model, found in models.items():
            _print(text, model, found)


def _timed(field: Field, hosts: Any, turns: int, steps: int) -> dict[str, Any]:
    """All turns of those the pilot picked, and of each system's compute alone."""
    entries, alone = field.entries(), field.alone()
    tried, faults = turns_of([entry.contender for entry in entries], hosts, 1, lambda _: PILOT_STEPS)
    pilot = {name: median_step(turn) for name, turn in tried.items()}
    picked = _picked(entries, pilot)
    contenders = [*(entry.contender for entry in picked), *alone.values()]
    found, _ = turns_of(contenders, hosts, turns, lambda _: steps)
    return {
        "gradient_bytes": field.model.gradient_bytes,
        "pilot": pilot,
        "faults": faults,
        "entries": {e.contender.name: {"system": e.system, "least_bytes": e.least_bytes} for e in picked},
        "turns": {e.contender.name: found[e.contender.name] for e in picked},
        "alone": {system: found[contender.name] for system, contender in alone.items()},
    }


def _picked(entries: Iterable[Entry], pilot: dict[str, float]) -> list[Entry]:
    able = (entry for entry in entries if entry.contender.name in pilot)
    ranked = sorted(able, key=lambda entry: pilot[entry.contender.name])
    return [entry for system, count in KEPT.items() for entry in [e for e in ranked if e.system == system][:count]]


def _print(text: str, model: str, found: dict[str, Any]) -> None:
    goodput = statistics.median(found["goodput"])
    print(
        f"\n{text}, {model}: {found['gradient_bytes'] / 1e6:.2f} MB of gradients; plain TCP in a ring carries "
        f"{goodput * 8e-6:.0f} Mbit/s"
    )
    print(
        f"  {'':<32}{'ms':>8}  {'interval':>17}  {'of the better peer':>22}  {'alone':>7}{'link':>8}{'overhead':>9}"
        f"{'cpu s':>7}{'MB':>7}"
    )
    for name, turns in found["turns"].items():
        entry = found["entries"][name]
        alone = median_step(found["alone"][entry["system"]])
        counted = step_bytes(turns)
        link = (entry["least_bytes"] or counted) / goodput
        low, high = spread([statistics.median(turn["step_seconds"]) for turn in turns])
        interval = f"{low * 1e3:.1f} - {high * 1e3:.1f}"
        print(
            f"  {name:<32}{median_step(turns) * 1e3:8.1f}  {interval:>17}  {_against_peers(name, found):>22}  "
            f"{alone * 1e3:7.1f}{link * 1e3:8.1f}{median_step(turns) / max(alone, link):8.2f}x"
            f"{cpu_seconds_a_step(turns):7.2f}{counted / 1e6:7.2f}"
        )
    rest = {name: seconds for name, seconds in found["pilot"].items() if name not in found["turns"]}
    print("  in the pilot only: " + ", ".join(f"{name} {ms * 1e3:.0f}" for name, ms in rest.items()))


def _against_peers(name: str, found: dict[str, Any]) -> str:
    """Ratio to the better peer's median, and its interval over turns."""
    peers = [each for each, entry in found["entries"].items() if entry["system"] != "autosync"]
    best = min(peers, key=lambda peer: median_step(found["turns"][peer]))
    ratios = _ratios(found["turns"][name], found["turns"][best])
    low, high = spread(ratios)
    return f"{statistics.median(ratios):.2f} ({low:.2f} - {high:.2f})"


def _ratios(turns: Sequence[Any], others: Sequence[Any]) -> list[float]:
    """Ratios of the medians of turns that were taken one after the other."""
    return [
        statistics.median(one["step_seconds"]) / statistics.median(other["step_seconds"])
        for one, other in zip(turns, others, strict=True)
    ]


if __name__ == "__main__":
    main()

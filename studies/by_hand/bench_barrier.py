"""Steps with and without a barrier, timed in turns, with their predictions and bounds.

    python -m studies.by_hand.bench_barrier --model resnet-mini --cluster topologies/paced_two_racks.yaml \\
        --strategy ring/250 --strategy rabenseifner/250 --strategy all_reduce_25mb --strategy runs/NAME/strategy.json

Needs root, except with `--predict`. Every strategy is carried out by sessions as in a trial: with a barrier; without a
barrier (`overlap_next_forward`); and, as *unordered*, without a barrier by workers whose messages go in the order of
gradients, not of the reads of the next pass. "rabenseifner/250" reduces all gradients by that algorithm in buckets of
at most 250 kB; "rabenseifner/250+apart" also sends the looked-up rows of tied tables apart. `--framework tensorflow`
times the other engine, which takes steps without a barrier in calls of several steps, and has one order of messages.

Prints for each cluster both lower bounds, and for each step the median with its 95 % interval over turns (the range,
with under six), the replay's prediction with its default coefficients, and that of the closed form.
Ends with the errors of the replay: their mean and their largest, in percent; then the same after division by the
median of the cell's ratios, as a calibration on the cell's own records would make them.
"""

from __future__ import annotations

import json
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import chain
from math import exp
from pathlib import Path
from typing import Any

import click

from autosync.baselines import baselines_for
from autosync.baselines.decisions import strategy_of, variables_in_ready_order
from autosync.baselines.reduced import assign_buckets, buckets_of
from autosync.cost import AnalyticSimulator, Replay, step_bound
from autosync.engine.core.contract import Captured
from autosync.engine.core.pacing import Waits
from autosync.engine.core.registry import ENGINES, engine_named
from autosync.engine.core.steps_a_call import MOST_STEPS, calls_of_several
from autosync.errors import SpecError
from autosync.spec import ALGORITHMS, ClusterSpec, ModelSpec, Strategy, check_strategy, median_interval
from autosync.terminal import say
from autosync.zoo import build_task
from studies.by_hand.peers.host_processes import HostProcesses
from trials.cluster.file import read_cluster_file
from trials.emulate import emulated
from trials.trial import RunsAhead

MODULE = "studies.by_hand.bench_barrier"
KILOBYTE = 1000
BARRIERS = {"barrier": False, "none": True}
"""`overlap_next_forward` by the names in the table."""
MEMBERS = ("member", "unordered")
"""Arguments of the workers' processes, and of the processes of workers that send without the order of reads."""


@click.command()
@click.option(
    "--cluster",
    "files",
    multiple=True,
    type=Path,
    default=(Path("topologies/paced_two_racks.yaml"),),
    show_default=True,
)
@click.option("--model", default="resnet-mini", show_default=True)
@click.option("--framework", default="pytorch", type=click.Choice(list(ENGINES)), show_default=True)
@click.option(
    "--strategy", "names", multiple=True, default=("ring/250", "rabenseifner/250", "all_reduce_25mb"), show_default=True
)
@click.option("--rounds", default=6, show_default=True, help="Turns of each step.")
@click.option("--steps", default=8, show_default=True, help=f"Timed steps in a turn, a multiple of {MOST_STEPS}.")
@click.option("--warm-up", default=4, show_default=True, help="Steps before them, such a multiple, too.")
@click.option("--predict", is_flag=True, help="Time nothing, and print predictions and bounds alone.")
def main(files: Sequence[Path], predict: bool, **plan: Any) -> None:
    """Time all steps in turns on each cluster, and print a table."""
    for option in ("steps", "warm_up"):
        if plan[option] % MOST_STEPS:
            raise click.UsageError(f"A call may take {MOST_STEPS} steps; {plan[option]} steps are no multiple of that.")
    ratios: list[list[float]] = []
    for file in files:
        cluster, turns = read_cluster_file(file), dict[str, dict[str, list[float]]]()
        if predict:
            spec = _capture(plan["model"], plan["framework"]).spec
        else:
            cluster, spec, turns = _time_on(cluster, plan)
        ratios.append(list(_print(file.stem, spec, cluster, plan["names"], turns)))
    if any(ratios):
        calibrated = [ratio / statistics.median(of_cell) for of_cell in ratios for ratio in of_cell]
        say(f"The replay is off by {_errors(chain.from_iterable(ratios))}; calibrated, by {_errors(calibrated)}.")


def _errors(ratios: Iterable[float]) -> str:
    errors = [100 * abs(ratio - 1) for ratio in ratios]
    return f"{statistics.fmean(errors):.1f} % on average and {max(errors):.1f} % at most"


def _time_on(
    cluster: ClusterSpec, plan: Mapping[str, Any]
) -> tuple[ClusterSpec, ModelSpec, dict[str, dict[str, list[float]]]]:
    """The emulated cluster, the model as captured there, and medians of each turn by strategy and barrier."""
    token = secrets.token_hex(16)
    with emulated("bench-barrier", cluster, start_ray=False) as made:
        with ExitStack() as stack:
            members = MEMBERS if engine_named(plan["framework"]).sends_by_reads else MEMBERS[:1]
            workers = [stack.enter_context(HostProcesses(made.hosts, MODULE, [member])) for member in members]
            clients = stack.enter_context(HostProcesses(made.hosts[:1], MODULE, MEMBERS[:1]))
            serving = [
                {"framework": plan["framework"], "address": host.address, "cores": node.cores, "token": token}
                for host, node in zip(made.hosts, made.cluster.nodes, strict=True)
            ]
            served = [group.ask_each("serve", serving) for group in workers]
            fields = {"cluster": made.cluster.to_json(), "workers": served, "token": token}
            answer = clients.ask("time", **plan, **fields)[0]
        return made.cluster, ModelSpec.from_json(answer["model"]), answer["turns"]


def _print(
    title: str,
    model: ModelSpec,
    cluster: ClusterSpec,
    names: Sequence[str],
    turns: Mapping[str, Mapping[str, list[float]]],
) -> Iterator[float]:
    """Print a cluster's table; yield the ratios of the replay's predictions to the measured steps."""
    bounds = {word: 1e3 * step_bound(model, cluster, free).seconds for word, free in BARRIERS.items()}
    say(
        f"{model.name} on {title}: bounds of {bounds['barrier']:.1f} ms with a barrier, {bounds['none']:.1f} ms without"
    )
    say(f"{'strategy':34} {'barrier':9} {'measured':>25} {'replay':>16} {'closed form':>12}")
    for name in names:
        for word, free in BARRIERS.items():
            strategy = replace(_strategy(name, model, cluster), overlap_next_forward=free)
            replayed, closed = (
                exp(simulator.predict(model, cluster, [strategy])[0]) for simulator in (Replay(), AnalyticSimulator())
            )
            medians = turns.get(name, {}).get(word, [])
            error = ""
            if medians:
                median = statistics.median(medians)
                error = f"{100 * (replayed / median - 1):+.1f} %"
                yield replayed / median
            measured = _in_words(medians)
            say(f"{name[-34:]:34} {word:9} {measured:>25} {1e3 * replayed:7.1f} {error:>8} {1e3 * closed:12.1f}")
        if unordered := turns.get(name, {}).get("unordered"):
            say(f"{name[-34:]:34} unordered {_in_words(unordered):>25}")


def _in_words(medians: Sequence[float]) -> str:
    """The median of turns with its 95 % interval; empty without turns."""
    if not medians:
        return ""
    least, most = median_interval(medians)
    return f"{1e3 * statistics.median(medians):.1f} ms [{1e3 * least:.1f}, {1e3 * most:.1f}]"


def _strategy(name: str, model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """The strategy of a baseline's name, of "ALGORITHM/KILOBYTES", or of a file. Raises `SpecError`."""
    name, _, apart = name.partition("+")
    if apart:
        together = _strategy(name, model, cluster)
        return replace(
            together,
            variables=tuple(
                replace(decision, rows_apart=decision.variable in model.weight_tied_tables)
                for decision in together.variables
            ),
        )
    if name in (baselines := baselines_for("pytorch")):
        return baselines[name](model, cluster)
    algorithm, _, size = name.partition("/")
    if algorithm not in ALGORITHMS:
        return Strategy.from_json(json.loads(Path(name).read_text()))
    full = buckets_of(round(float(size) * KILOBYTE))
    reduced = assign_buckets(variables_in_ready_order(model), full, algorithm=algorithm)
    return strategy_of(model, cluster, reduced)


def _capture(model: str, framework: str) -> Captured:
    engine = engine_named(framework)
    engine.load()
    return engine.profile(engine.capture(build_task(model, framework=framework)))


def _serve(framework: str, address: str, cores: float, token: str) -> dict[str, Any]:
    """Begin to serve as a worker; the worker's address and its waits."""
    engine = engine_named(framework)
    engine.load()
    worker = engine.worker(address, cores, True, (), token)
    return {"address": worker.address, "waits": asdict(worker.offer_waits())}


def _time(
    framework: str,
    workers: Sequence[Sequence[Mapping[str, Any]]],
    token: str,
    cluster: dict[str, Any],
    model: str,
    names: Sequence[str],
    rounds: int,
    steps: int,
    warm_up: int,
) -> dict[str, Any]:
    """Step all strategies in turns as the client of the workers."""
    spec, captured = ClusterSpec.from_json(cluster), _capture(model, framework)
    sessions = []
    for group in workers:
        client = engine_named(framework).client(token)
        client.connect([worker["address"] for worker in group], group[0]["address"].rpartition(":")[0])
        waits = [Waits(**worker["waits"]) for worker in group]
        sessions.append(client.session(captured, spec, dict(zip(map(str, spec.server_devices), waits, strict=True))))
    turns: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    contenders = []
    for name in names:
        for word, free in BARRIERS.items():
            strategy = replace(_strategy(name, captured.spec, spec), overlap_next_forward=free)
            try:
                check_strategy(strategy, captured.spec, spec)
            except SpecError as error:
                sys.stderr.write(f"{name}, {word}: {error}\n")
                continue
            contenders.append((name, word, strategy, sessions[0]))
            if free and len(sessions) > 1:
                contenders.append((name, "unordered", strategy, sessions[1]))
    traces = framework == "tensorflow"  # once a step, which takes seconds; so steps stay open
    kept = dict[tuple[str, str], Any]()
    for turn in range(rounds):
        for name, word, strategy, session in contenders if turn % 2 == 0 else reversed(contenders):
            step = kept.pop((name, word), None) or session.realize(strategy)
            take = _taker(step, warm_up + steps)
            take(warm_up)
            # Some of a step's values travel in the next one, so a turn is timed as a whole.
            began = time.perf_counter()
            take(steps)
            turns[name].setdefault(word, []).append((time.perf_counter() - began) / steps)
            if traces:
                kept[name, word] = step
            else:
                step.close()
    return {"model": captured.spec.to_json(), "turns": turns}


def _taker(step: Any, total: int) -> Callable[[int], None]:
    """A function that takes steps, `total` in all; in calls of several if the engine overlaps steps by such calls."""
    several = calls_of_several(step)
    if isinstance(step, RunsAhead):
        step.expect_steps(total)

    def take(count: int) -> None:
        if several is not None:
            for _ in range(count // MOST_STEPS):
                several.several(MOST_STEPS)
        else:
            for _ in range(count):
                step()

    return take


def _in_order_of_gradients(synchronizer: Any, plan: Any, order: Sequence[str]) -> list[float]:
    """Priorities of buckets for `GradientSynchronizer._priorities`: the number of the bucket, as with a barrier."""
    del synchronizer, order
    return [float(number) for number in range(len(plan.buckets))]


def _answer_questions() -> None:
    """Answer the questions of `HostProcesses`, one a line."""
    for line in sys.stdin:
        question = json.loads(line)
        answer = {"serve": _serve, "time": _time}[question.pop("do")](**question)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["unordered"]:
        from autosync.engine.pytorch.synchronizer import GradientSynchronizer

        GradientSynchronizer._priorities = _in_order_of_gradients  # type: ignore[method-assign]
    if sys.argv[1:] in ([member] for member in MEMBERS):
        _answer_questions()
    else:
        main()

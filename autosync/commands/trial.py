"""The command `autosync trial`: time one strategy by hand, or train by it to a target."""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import NOT_DONE, SETTINGS, run_command, without_rays_own_news
from autosync.engine.zoo import check_model_name
from autosync.errors import WriteError
from autosync.files import made_folder, write_atomically
from autosync.spec import (
    RuntimeRecord,
    Strategy,
    Target,
    TargetRecord,
    TimingProtocol,
    canonical_json,
    check_step_time_ranks,
    check_strategy,
    digest,
    median_interval,
    read_device_profile,
)
from autosync.spec.target import metric_of
from autosync.terminal import emit, say, say_all
from autosync.words.cluster import cluster_lines, kept_in_words
from autosync.words.quantities import counted, model_in_words
from autosync.words.strategy import statistics_in_words
from trials.capture_limit import capture_time_limit
from trials.cluster.file import read_cluster_file
from trials.fleet.lanes import Backend
from trials.opening import KINDS, Choice, opened, read_strategy_file
from trials.to_target import TargetRequest
from trials.trial import TrialRequest


@click.command("trial", context_settings=SETTINGS)
@click.option(
    "--model",
    "--task",
    "model",
    required=True,
    help="A zoo model such as bert, or your own as package.module:function.",
)
@click.option("--strategy", "file", required=True, type=Path, help="The strategy to time, a JSON file.")
@click.option("--backend", "kind", default="ray", type=click.Choice(KINDS), help="Ray actors, or this process alone.")
@click.option("--workers", type=click.IntRange(1), help="Worker processes.  [default: 4, or one a node of a cluster]")
@click.option("--cluster", type=Path, help="Cluster file that states nodes, racks, links and pace.")
@click.option("--profile", type=Path, help="What paced passes follow: the model on another device, a JSON file.")
@click.option("--address", help="Ray cluster to join.  [default: $RAY_ADDRESS, or a local one is started]")
@click.option("--warmup", "warmup_steps", default=10, help="Steps thrown away before timing.")
@click.option("--steps", "timed_steps", default=40, help="Steps timed.")
@click.option("--time-limit", "time_limit_seconds", default=300.0, help="Seconds the trial may take.")
@click.option(
    "--seed",
    default=0,
    help="A number for the record, by which paced passes are drawn; and batches too, where there is a target.",
)
@click.option("--target", help="Train until this is reached in place of timing steps, such as loss=0.08.")
@click.option("--evaluate-every", "every", default=10, help="Steps after which a target is looked at.")
@click.option("--most-steps", default=2000, help="Steps after which a target is given up.")
@click.option("--out", type=Path, default=Path("runs/targets"), help="Folder of records of targets.")
@capture_time_limit
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON, and nothing else.")
def command(file: Path, seed: int, profile: Path | None, as_json: bool, target: str | None, **given: Any) -> int:
    """Time one strategy, or train by it to a target. The exit status is 0 when it was timed or the target was reached,
    1 when not, 2 when it cannot be run.
    """
    aim = {name: given.pop(name) for name in ("every", "most_steps", "out")}
    timing = {name: given.pop(name) for name in ("warmup_steps", "timed_steps", "time_limit_seconds")}
    if profile is not None and given["kind"] == "local":
        raise click.UsageError("--profile is what paced passes follow, and local back ends have none; leave it out.")
    choice = Choice(**given, profile=None if profile is None else read_device_profile(profile))
    if choice.cluster is not None:
        if choice.kind == "local" or choice.workers is not None:
            raise click.UsageError(
                "--cluster states the nodes of a Ray cluster; --workers and local back ends have none."
            )
        read_cluster_file(choice.cluster)  # its faults are reported before anything is started
    check_model_name(choice.model)
    strategy = read_strategy_file(file)
    if target is not None:
        wanted = Target(*metric_of(target), aim["every"], aim["most_steps"])
        towards = TargetRequest(strategy, wanted, seed, timing["time_limit_seconds"], file.stem)
        return _train(choice, towards, aim["out"], as_json)
    check_step_time_ranks(strategy)
    request = TrialRequest(strategy, TimingProtocol(**timing), label=file.stem, seed=seed)
    return _time(choice, request, as_json)


@contextmanager
def _opened(choice: Choice, strategy: Strategy, as_json: bool) -> Iterator[Backend]:
    """The back end that is chosen, on which `strategy` can be run; what it is has been printed, but for JSON."""
    without_rays_own_news()
    with opened(choice) as ready:
        backend = ready.backend
        if not as_json:
            say_all([*ready.notes, model_in_words(backend.model), *cluster_lines(backend.cluster)])
        check_strategy(strategy, backend.model, backend.cluster)
        yield backend


def _time(choice: Choice, request: TrialRequest, as_json: bool) -> int:
    with _opened(choice, request.strategy, as_json) as backend:
        record = backend.run(request)
    if as_json:
        emit(canonical_json(record.to_json()))
    else:
        say_all(record_lines(record))
    return 0 if record.outcome == "ok" else NOT_DONE


def _train(choice: Choice, request: TargetRequest, folder: Path, as_json: bool) -> int:
    """Train to the target, and write the record to a file of its own in `folder`."""
    made_folder(folder)
    with _opened(choice, request.strategy, as_json) as backend:
        record = backend.train(request)
    document = canonical_json(record.to_json())
    strategy, own = record.strategy.digest[:8], digest(record.to_json())[:8]
    file = folder / f"{record.model.name.replace('/', '-')}-{strategy}-{record.seed}-{own}.json"
    if not as_json:
        say_all(target_lines(record))
    try:
        write_atomically(file, document, afterwards="keep the record printed above")
    except WriteError:
        emit(document)  # a run of hours must not be lost with the disk
        raise
    if as_json:
        emit(document)
    else:
        say(f"The record is in {file}.")
    return 0 if record.outcome == "reached" else NOT_DONE


def target_lines(record: TargetRecord) -> Iterator[str]:
    """What came of a run towards a target."""
    mark = "" if record.cluster.time == "real" else f" ({record.cluster.time})"
    words = statistics_in_words(record.strategy)
    if words:
        yield words
    yield f"Strategy {record.strategy.digest}, seed {record.seed}: {record.outcome.replace('_', ' ')}"
    if record.reason:
        yield f"Reason: {record.reason}"
    if record.curve:
        last = record.curve[-1]
        yield (
            f"Loss: {record.curve[0].value:.4g} at first, {last.value:.4g} after {counted(last.step, 'step')} and "
            f"{last.seconds:.2f} s{mark}; the target is {record.target.threshold:g}"
        )
    if record.step_seconds:
        yield f"Median step{mark}: {_ms(statistics.median(record.step_seconds))}"
        yield f"Replicas met in {record.met} of {counted(record.steps, 'step')}"
    if record.strategy.discipline.waits and record.counted:  # what was lost with its process has none
        each = zip(record.strategy.replicas, record.counted, strict=True)
        yield "Counted: " + ", ".join(f"{replica} in {number}" for replica, number in each)
    if record.controller_seconds:
        yield f"Deciding took {record.controller_seconds * 1e3:.1f} ms in all"
    if record.pace is not None:
        yield kept_in_words(record.pace)


def record_lines(record: RuntimeRecord) -> Iterator[str]:
    """What came of a trial and how sure it is; steps timed before a trial ended early are described as well."""
    yield f"Strategy {record.strategy.digest}: {record.outcome}"
    if record.reason:
        yield f"Reason: {record.reason}"
    yield f"Setup: {record.setup_seconds:.2f} s; the trial in all: {record.total_seconds:.2f} s"
    if record.step_seconds:
        warmup, wanted = record.protocol.warmup_steps, record.protocol.timed_steps
        yield f"Steps: {len(record.step_seconds)} of {wanted} timed, after {warmup} for warm-up"
        yield from _step_lines(record.step_seconds, "" if record.time == "real" else f" ({record.time})")
    if record.pace is not None:
        yield kept_in_words(record.pace)
    if record.final_loss is not None:
        yield f"Last loss: {record.final_loss:.4g}"


def _step_lines(step_seconds: tuple[float, ...], mark: str) -> Iterator[str]:
    low, high = median_interval(step_seconds)
    median = _ms(statistics.median(step_seconds))
    yield f"Median{mark}: {median}, 95 % interval {_ms(low)} to {_ms(high)} (order statistics)"
    spread = statistics.stdev(step_seconds) if len(step_seconds) > 1 else 0.0
    yield (
        f"Mean{mark}: {_ms(statistics.fmean(step_seconds))}, standard deviation {_ms(spread)}, "
        f"from {_ms(min(step_seconds))} to {_ms(max(step_seconds))}"
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


main = partial(run_command, command, interrupted="Interrupted; the trial was ended and left no record.")

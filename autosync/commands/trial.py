"""The command `autosync trial`: times one strategy, or trains by it to a target."""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import cloup

from autosync.commands.config import config_option
from autosync.commands.options import (
    address_option,
    cluster_option,
    framework_option,
    model_option,
    profile_option,
    timed_steps_option,
    warmup_option,
)
from autosync.commands.output import FOR_PEOPLE, Output, output_options
from autosync.commands.shell import NOT_DONE, SETTINGS, run_command
from autosync.commands.values import FILE
from autosync.errors import WriteError
from autosync.files import make_folder, write_atomically
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
from autosync.terminal import Report, emit, say, say_all
from autosync.words.cluster import cluster_lines, kept_in_words
from autosync.words.quantities import count_of, model_in_words
from autosync.words.strategy import statistics_in_words
from autosync.zoo import check_model_name
from trials.capture_limit import capture_time_limit
from trials.cluster.file import read_cluster_file
from trials.fleet.lanes import Backend
from trials.opening import KINDS, BackendOptions, open_backend, read_strategy_file
from trials.to_target import TargetRequest
from trials.trial import TrialRequest


@cloup.command("trial", context_settings=SETTINGS)
@cloup.option_group("Model", model_option, framework_option, capture_time_limit)
@cloup.option_group(
    "Trial",
    click.option("--strategy", "file", required=True, type=FILE, help="The strategy to time, a JSON file."),
    warmup_option,
    timed_steps_option,
    click.option("--time-limit", "time_limit_seconds", default=300.0, help="Seconds the trial may take."),
    click.option(
        "--seed",
        default=0,
        help="Seed of the record: paced passes are drawn by it and, with a target, batches too.",
    ),
    config_option,
)
@cloup.option_group(
    "Training to a target",
    click.option("--target", help="Train until this target is reached instead of timing steps, such as loss=0.08."),
    click.option("--evaluate-every", "every", default=10, help="Steps between two checks of the target."),
    click.option("--most-steps", default=2000, help="Steps after which the target is given up."),
    click.option("--out", type=FILE, default=Path("runs/targets"), help="Folder of the records of runs to a target."),
)
@cloup.option_group(
    "Cluster",
    click.option(
        "--backend", "kind", default="ray", type=click.Choice(KINDS), help="Ray actors, or this process alone."
    ),
    address_option,
    click.option(
        "--workers", type=click.IntRange(1), help="Worker processes.  [default: 4, or one per node of a cluster]"
    ),
    cluster_option,
    profile_option,
)
@output_options("Print the record as JSON to stdout, and messages to stderr.")
def command(file: Path, seed: int, profile: Path | None, target: str | None, output: Output, **options: Any) -> int:
    """Time one strategy, or train by it to a target. The exit status is 0 when it was timed or the target was reached,
    1 when not, 2 when it cannot be run.
    """
    aim = {name: options.pop(name) for name in ("every", "most_steps", "out")}
    timing = {name: options.pop(name) for name in ("warmup_steps", "timed_steps", "time_limit_seconds")}
    if profile is not None and options["kind"] == "local":
        raise click.UsageError("--profile is for paced passes, which local back ends do not have; leave it out.")
    choice = BackendOptions(**options, profile=None if profile is None else read_device_profile(profile))
    if choice.cluster is not None:
        if choice.kind == "local" or choice.workers is not None:
            raise click.UsageError(
                "--cluster states the nodes of a Ray cluster, and excludes --workers and local back ends."
            )
        read_cluster_file(choice.cluster)  # faults of the file are reported before anything is started
    check_model_name(choice.model, choice.framework)
    strategy = read_strategy_file(file)
    with output.channel() as report:
        if target is not None:
            wanted = Target(*metric_of(target), aim["every"], aim["most_steps"])
            towards = TargetRequest(strategy, wanted, seed, timing["time_limit_seconds"], file.stem)
            return _train(choice, towards, aim["out"], output, report)
        check_step_time_ranks(strategy)
        request = TrialRequest(strategy, TimingProtocol(**timing), label=file.stem, seed=seed)
        return _time(choice, request, output, report)


@contextmanager
def _open_backend(choice: BackendOptions, strategy: Strategy, output: Output) -> Iterator[Backend]:
    """The chosen back end, on which `strategy` can run. Its description is printed first."""
    with open_backend(choice) as ready:
        backend = ready.backend
        if not output.quiet:
            say_all([*ready.notes, model_in_words(backend.model), *cluster_lines(backend.cluster)])
        check_strategy(strategy, backend.model, backend.cluster)
        yield backend


def _time(choice: BackendOptions, request: TrialRequest, output: Output, report: Report) -> int:
    with _open_backend(choice, request.strategy, output) as backend:
        record = backend.run(request)
    say_all(record_lines(record, output))
    report(record.to_json())
    return 0 if record.outcome == "ok" else NOT_DONE


def _train(choice: BackendOptions, request: TargetRequest, folder: Path, output: Output, report: Report) -> int:
    """Train to the target, and write the record to a file of its own in `folder`."""
    make_folder(folder)
    with _open_backend(choice, request.strategy, output) as backend:
        record = backend.train(request)
    document = canonical_json(record.to_json())
    strategy, result = record.strategy.digest[:8], digest(record.to_json())[:8]
    file = folder / f"{record.model.name.replace('/', '-')}-{strategy}-{record.seed}-{result}.json"
    say_all(target_lines(record, output))
    try:
        write_atomically(file, document, afterwards="keep the record printed above")
    except WriteError:
        if output.as_json:
            report(record.to_json())
        else:
            emit(document)  # a run of hours must not be lost with the disk
        raise
    say(f"The record is in {file}.")
    report(record.to_json())
    return 0 if record.outcome == "reached" else NOT_DONE


def target_lines(record: TargetRecord, output: Output = FOR_PEOPLE) -> Iterator[str]:
    """Lines on the result of a run towards a target."""
    mark = "" if record.cluster.time == "real" else f" ({record.cluster.time})"
    words = statistics_in_words(record.strategy)
    if words:
        yield words
    yield f"Strategy {record.strategy.digest}, seed {record.seed}: {record.outcome.replace('_', ' ')}"
    if record.reason:
        yield f"Reason: {record.reason}"
    if output.quiet:
        return
    if output.verbose:
        for point in record.curve:
            yield f"After {count_of(point.step, 'step')} and {point.seconds:.2f} s{mark}: loss {point.value:.4g}"
    if record.curve:
        last = record.curve[-1]
        yield (
            f"Loss: {record.curve[0].value:.4g} at first, {last.value:.4g} after {count_of(last.step, 'step')} and "
            f"{last.seconds:.2f} s{mark}; the target is {record.target.threshold:g}"
        )
    if record.step_seconds:
        yield f"Median step{mark}: {_ms(statistics.median(record.step_seconds))}"
        yield f"Replicas synchronized in {record.met} of {count_of(record.steps, 'step')}"
    if record.strategy.discipline.waits and record.counted:  # a run that was lost with its process has no counts
        pairs = zip(record.strategy.replicas, record.counted, strict=True)
        yield "Counted: " + ", ".join(f"{replica} in {number}" for replica, number in pairs)
    if record.controller_seconds:
        yield f"Controller time: {record.controller_seconds * 1e3:.1f} ms in all"
    if record.pace is not None:
        yield kept_in_words(record.pace)


def record_lines(record: RuntimeRecord, output: Output = FOR_PEOPLE) -> Iterator[str]:
    """Lines on the result of a trial and its uncertainty; steps that were timed before a trial ended early are
    included.
    """
    mark = "" if record.time == "real" else f" ({record.time})"
    yield f"Strategy {record.strategy.digest}: {record.outcome}"
    if record.reason:
        yield f"Reason: {record.reason}"
    if output.quiet:
        if record.step_seconds:
            yield _median_line(record.step_seconds, mark)
        return
    if output.verbose:
        for number, seconds in enumerate(record.step_seconds, 1):
            yield f"Step {number}{mark}: {_ms(seconds)}"
    yield f"Setup: {record.setup_seconds:.2f} s; the trial in all: {record.total_seconds:.2f} s"
    if record.step_seconds:
        warmup, wanted = record.protocol.warmup_steps, record.protocol.timed_steps
        yield f"Steps: {len(record.step_seconds)} of {wanted} timed, after {warmup} for warm-up"
        yield from _step_lines(record.step_seconds, mark)
    if record.pace is not None:
        yield kept_in_words(record.pace)
    if record.final_loss is not None:
        yield f"Last loss: {record.final_loss:.4g}"


def _step_lines(step_seconds: tuple[float, ...], mark: str) -> Iterator[str]:
    yield _median_line(step_seconds, mark)
    spread = statistics.stdev(step_seconds) if len(step_seconds) > 1 else 0.0
    yield (
        f"Mean{mark}: {_ms(statistics.fmean(step_seconds))}, standard deviation {_ms(spread)}, "
        f"from {_ms(min(step_seconds))} to {_ms(max(step_seconds))}"
    )


def _median_line(step_seconds: tuple[float, ...], mark: str) -> str:
    low, high = median_interval(step_seconds)
    median = _ms(statistics.median(step_seconds))
    return f"Median{mark}: {median}, 95 % interval {_ms(low)} to {_ms(high)} (order statistics)"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


main = partial(run_command, command, interrupted="Interrupted; the trial was ended and left no record.")

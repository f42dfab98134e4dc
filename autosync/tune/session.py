"""Runs a search from start to end: joins Ray, watches its head, searches the cluster, and shuts everything down."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import ray
from ray.tune import Callback

from autosync.dataset import RecordStore
from autosync.errors import DatasetError, NodesLostError
from autosync.tune.composing import search
from autosync.tune.directory import RunDirectory, claim_run
from autosync.tune.finishing import command_to_resume
from autosync.tune.job import Job, open_fleet
from autosync.tune.observer import Observer
from autosync.tune.options import TuneOptions
from autosync.tune.preflight import check_cheap_things
from autosync.tune.result import SearchResult
from trials.fleet.fleet import Fleet
from trials.opening import try_model
from trials.signals import ctrl_c_waits, end_signal
from trials.workers.local_ray import RayStart, start_ray, watch_head

HEADLESS = 3
"""Exit status when the cluster's head died."""


def tune(
    options: TuneOptions, arguments: Sequence[str], observer: Observer, out_is_default: bool = False
) -> SearchResult | None:
    """Run the search that `options` describe for the command `autosync tune` with `arguments`, and return the result.

    `out_is_default`: the folder is named after the time, so another name may replace it. Raises as `run_in_folder`.
    """
    check_cheap_things(options)
    with claim_run(options.out, is_default=out_is_default, resume=options.resume) as out:
        options = options.model_copy(update={"out": out})
        return run_in_folder(options, observer, arguments, ends_without_head=True)


def run_in_folder(
    options: TuneOptions,
    observer: Observer,
    arguments: Sequence[str],
    ends_without_head: bool = False,
    tune_callbacks: Sequence[Callback] = (),
) -> SearchResult | None:
    """Run the search that `options` describe in the claimed folder `options.out`, and return the result.

    Return None without a verdict: no trial succeeded, or the finals could not run. `arguments` are the words after
    `autosync tune` that begin the same search. `ends_without_head`: this process ends once the head of the Ray cluster
    is lost. Ray stays joined if this process had joined it before. `tune_callbacks` are the caller's, for Ray Tune.

    Raises `AutosyncError` for faults that the user can correct, and `KeyboardInterrupt` on Ctrl-C, after everything is
    stored, every process has ended, and the command that resumes was reported.
    """
    store = RecordStore.create(options.data)
    directory = RunDirectory.open(options)
    begin = time.monotonic() - (directory.read_state()[1] if options.resume else 0.0)
    joined_before = ray.is_initialized()
    try:
        start = RayStart(options.address, options.workers, working_dir=options.working_dir)
        framework = try_model(
            options.model,
            options.capture_time_limit_seconds,
            options.address,
            meanwhile=lambda: observer.say(start_ray(start)),
            framework=options.framework,
            folder=options.python_path,
        )
        options = options.model_copy(update={"framework": framework})
        with _watch_for_loss(options, observer, arguments) if ends_without_head else nullcontext():
            return _search_until_done(
                options,
                directory,
                observer,
                lambda fleet: Job(options, directory, store, fleet, observer, begin, arguments, tune_callbacks),
            )
    finally:
        with ctrl_c_waits():
            if not joined_before:
                ray.shutdown()
            _compact(store, observer)


def _search_until_done(
    options: TuneOptions, directory: RunDirectory, observer: Observer, job_on: Callable[[Fleet], Job]
) -> SearchResult | None:
    """Search the cluster; if nodes are lost and the options ask for it, start again on the remaining nodes."""
    shrunk = False
    while True:
        fleet = open_fleet(options, directory, observer, shrunk)
        try:
            return search(job_on(fleet), go_on=options.resume and not shrunk)
        except NodesLostError:
            if options.on_node_loss != "shrink":
                raise
            shrunk = True
            observer.say("Too few nodes are left for this search; it starts again on the remaining nodes.")
        finally:
            fleet.close()


@contextmanager
def _watch_for_loss(options: TuneOptions, observer: Observer, arguments: Sequence[str]) -> Iterator[None]:
    """End this process if the head of the Ray cluster is lost in the block."""
    stop_watching = watch_head(ray.get_runtime_context().gcs_address, lambda: _headless(options, observer, arguments))
    try:
        yield
    finally:
        stop_watching()


def _headless(options: TuneOptions, observer: Observer, arguments: Sequence[str]) -> None:
    """End this process at once, because Ray cannot be used without the head of its cluster."""
    observer.say("\nThe head of the Ray cluster no longer answers. All finished trials are kept.", is_verdict=True)
    if (options.out / "run.json").exists():
        again = command_to_resume(arguments, options)
        observer.say(f"To resume, on this cluster or another like it: {again}", is_verdict=True)
    observer.end()
    sys.stdout.flush()
    number = end_signal()  # `timeout`, for example, ends Ray with the same signal
    os._exit(128 + number if number else HEADLESS)


def _compact(store: RecordStore, observer: Observer) -> None:
    """Merge the run's small files; a failure here must not hide how the run itself ended."""
    try:
        store.compact()
    except DatasetError as error:
        observer.say(f"All records are kept, but they could not be merged into one file: {error}")

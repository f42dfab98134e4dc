"""A session: Ray is joined, its head is watched, the cluster is searched, and everything is put away."""

import os
import sys
import time

import ray
from rich.console import Console

from autosync.dataset import RecordStore
from autosync.errors import DatasetError, NodesLostError
from autosync.terminal import Terminal
from autosync.tune.composing import search
from autosync.tune.directory import RunDirectory, claimed_run
from autosync.tune.finishing import command_to_go_on
from autosync.tune.job import Job, open_fleet
from autosync.tune.options import TuneOptions
from autosync.tune.refusals import check_cheap_things
from trials.opening import try_model
from trials.signals import ctrl_c_waits, requested_end
from trials.workers.local_ray import RayStart, start_ray, watch_head

HEADLESS = 3
"""Exit status when the cluster's head died."""


def tune(options: TuneOptions, out_is_default: bool = False) -> int:
    """Run the search that `options` ask for, print its outcome, and return the exit status.

    With `out_is_default` the folder is named after the time, so another name does as well.
    Raises `AutosyncError` for faults that the user can correct, and `KeyboardInterrupt` on Ctrl-C, with everything
    kept, every process ended, and the way to go on printed.
    """
    check_cheap_things(options)
    with claimed_run(options.out, is_default=out_is_default, resume=options.resume) as out:
        return _tune(options.model_copy(update={"out": out}))


def _tune(options: TuneOptions) -> int:
    """`tune` in a folder that is claimed."""
    console = Terminal()
    store = RecordStore.create(options.data)
    directory = RunDirectory.open(options)
    begin = time.monotonic() - (directory.read_state()[1] if options.resume else 0.0)
    try:
        start = RayStart(options.address, options.workers, working_dir=options.working_dir)
        try_model(
            options.model,
            options.capture_time_limit_seconds,
            options.address,
            meanwhile=lambda: console.print(start_ray(start)),
        )
        stop_watching = watch_head(ray.get_runtime_context().gcs_address, lambda: _headless(options, console))
        try:
            return _searched(options, directory, store, console, begin)
        finally:
            stop_watching()
    finally:
        with ctrl_c_waits():
            ray.shutdown()
            _compact(store, console)


def _searched(options: TuneOptions, directory: RunDirectory, store: RecordStore, console: Console, begin: float) -> int:
    """Search the cluster there is, and on request what is left of it when nodes are lost; return the exit status."""
    shrunk = False
    while True:
        fleet = open_fleet(options, directory, console, shrunk)
        try:
            return search(Job(options, directory, store, fleet, console, begin), go_on=options.resume and not shrunk)
        except NodesLostError:
            if options.on_node_loss != "shrink":
                raise
            shrunk = True
            console.print("Too few nodes are left for this search; it begins anew on those there are.")
        finally:
            fleet.close()


def _headless(options: TuneOptions, console: Console) -> None:
    """End this process at once: without the head of its cluster nothing more can be asked of Ray."""
    console.print("\nThe head of the Ray cluster does not answer any more. Every trial that was over is kept.")
    if (options.out / "run.json").exists():
        again = command_to_go_on(sys.argv[1:], options)
        console.print(f"Go on, on this cluster or another like it: {again}", soft_wrap=True)
    console.show_cursor()
    sys.stdout.flush()
    number = requested_end()  # `timeout`, for example, ends Ray with the same signal
    os._exit(128 + number if number else HEADLESS)


def _compact(store: RecordStore, console: Console) -> None:
    """Merge the run's small files; a failure here must not hide how the run itself ended."""
    try:
        store.compact()
    except DatasetError as error:
        console.print(f"The records are kept, but could not be merged into one file: {error}", soft_wrap=True)

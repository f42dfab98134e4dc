"""The function `find_strategy`: the search of `autosync tune`, called from a script, a notebook or a Ray job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ray.tune import Callback as TuneCallback

from autosync.errors import TrialError, did_you_mean
from autosync.files import write_atomically
from autosync.runs import is_run, read_run
from autosync.shadows import check_path
from autosync.tune.directory import RunDirectory, claim_run
from autosync.tune.options import OptionsError, TuneOptions, default_folder
from autosync.tune.preflight import check_cheap_things
from autosync.tune.python.callbacks import Callback, CallingObserver, printing_observer
from autosync.tune.python.model_function import ModelFunction
from autosync.tune.python.result import Result
from autosync.tune.session import run_in_folder
from autosync.words.commands import is_cluster_file
from trials.workers.import_places import TAKEN

if TYPE_CHECKING:
    from typing_extensions import Unpack


class MoreOptions(TypedDict, total=False):
    """The other options of `autosync tune`, by the names of `TuneOptions`; `docs/python.md` lists them."""

    framework: str | None
    workers: int | None
    space: str | None
    without_rules: tuple[str, ...]
    try_first: tuple[str | os.PathLike[str], ...]
    searcher: str
    simulator: str
    warm_start: str | os.PathLike[str] | None
    round_size: int | None
    seed: int
    data: str | os.PathLike[str]
    warmup_steps: int
    timed_steps: int
    trial_time_limit_seconds: float
    stop_factor: float
    patience: int | None
    training_steps: int
    rounds: int
    counterfactuals: int
    tuned_all_reduce: bool
    profile: str | os.PathLike[str] | None
    nodes_per_trial: int | None
    on_node_loss: str
    node_wait_seconds: float
    probe: bool
    reprobe: bool
    working_dir: str | os.PathLike[str] | None
    capture_time_limit_seconds: float


def find_strategy(
    build: Callable[[], Any] | str,
    *,
    cluster: str | os.PathLike[str] | None = None,
    trials: int = 200,
    time_budget: float | None = None,
    callbacks: Iterable[Callback | TuneCallback] = (),
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool = True,
    **options: Unpack[MoreOptions],
) -> Result:
    """Find the fastest gradient-synchronization strategy for a model on a cluster, by measuring.

    Args:
        build: A function without arguments that returns the model, its loss and a batch, as `docs/own-model.md` and
            `docs/pytorch.md` describe; or text: `module:function`, or the name of a zoo model. A function of a script
            or a notebook is copied into the search's folder, with everything at the top level that it uses.
        cluster: A cluster file (.yaml), or the address of a Ray cluster. None for the Ray that this program has joined
            or RAY_ADDRESS names, or else for a local Ray, which ends with the search.
        trials: Strategies to time, baselines included.
        time_budget: Seconds of the whole search; None for no limit.
        callbacks: Functions that are called with the `RuntimeRecord` of each trial, and callbacks of Ray Tune
            (`ray.tune.Callback`), such as those for MLflow and Weights & Biases.
        out: The folder of the search. None for runs/MODEL-TIME.
        resume: Whether to resume the search in `out`.
        progress: Whether to print each trial.
        **options: The other options of `autosync tune`.

    Returns:
        The strategy, the verdict, tables and figures. After Ctrl-C, the result of the trials so far.

    Raises:
        AutosyncError: An option, the model or the cluster cannot be used; messages name options as `autosync tune`
            does.
        KeyboardInterrupt: Ctrl-C came before the first trial ended.
    """
    check_path()
    _check_names(options)
    model = ModelFunction.of(build)
    chosen: dict[str, Any] = {"model": model.name, "trials": trials, "time_budget_seconds": time_budget, **options}
    if cluster is not None:
        chosen["cluster" if is_cluster_file(os.fspath(cluster)) else "address"] = os.fspath(cluster)
    folder = default_folder(model.name) if out is None else Path(out)
    checked = TuneOptions.create(**chosen, out=folder, resume=resume, python_path=model.folder)
    check_cheap_things(checked)
    with claim_run(folder, is_default=out is None, resume=resume) as claimed:
        return _search(checked.model_copy(update={"out": claimed}), model.text, list(callbacks), progress)


def _check_names(options: Iterable[str]) -> None:
    """Raise `OptionsError` for a name that is not in `MoreOptions`, because not every caller checks types."""
    if "emulate" in options:
        raise OptionsError(
            "find_strategy joins clusters and makes none; make one with `autosync emulate up`, and run your program "
            "with `autosync emulate exec`."
        )
    known = MoreOptions.__annotations__
    if unknown := [name for name in options if name not in known]:
        also = f"it also has {', '.join(sorted(known))}"
        raise OptionsError(f"find_strategy has no option {unknown[0]!r}; {also}.{did_you_mean(unknown[0], known)}")


def _search(options: TuneOptions, text: str | None, callbacks: list[Callback | TuneCallback], progress: bool) -> Result:
    """Search in the claimed folder, for the model in a module with `text`, if it is not None."""
    RunDirectory(options.out, "").check_begun(options.resume)
    if text is not None:
        write_atomically(options.out / f"{TAKEN}.py", text)
        options = options.model_copy(update={"python_path": options.out.resolve()})
    of_tune = [callback for callback in callbacks if isinstance(callback, TuneCallback)]
    functions = [callback for callback in callbacks if not isinstance(callback, TuneCallback)]
    observer = CallingObserver(printing_observer(progress), functions)
    try:
        run_in_folder(options, observer, options.arguments(), tune_callbacks=of_tune)
    except KeyboardInterrupt:
        if not is_run(options.out) or not read_run(options.out, options.data).trials:
            raise
    result = Result(read_run(options.out, options.data))
    if not result.run.trials:
        raise TrialError(f"The search in {options.out} ended before its first trial; raise time_budget.")
    return result

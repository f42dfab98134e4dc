"""Times an all-reduce tuned by hand after a search: a grid of bucket sizes and algorithms, as one more baseline."""

from collections.abc import Sequence
from functools import partial

from autosync.baselines.ddp import ddp_grid
from autosync.baselines.tuned import algorithms_to_try, all_reduce_grid
from autosync.errors import NodesLostError, TrialError
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol
from autosync.tune.budget import Reserve
from autosync.tune.events import report_turn
from autosync.tune.finals import take_turns
from autosync.tune.job import Job
from autosync.tune.refusals import can_overlap, refusals_of
from autosync.tune.stop_threshold import best_now
from autosync.words.quantities import count_of
from trials.trial import TrialRequest

LABEL = "tuned_all_reduce"


def _grid(job: Job) -> dict[str, Strategy]:
    """The combinations that the engine carries out and, on PyTorch, those that DistributedDataParallel carries out.

    Each has a barrier and, if the engine can, also overlaps with the next forward pass.
    """
    model, cluster, framework = job.backend.model, job.backend.cluster, job.options.framework_or_default
    overlaps = (False, True) if can_overlap(framework, model, cluster) else (False,)
    grid = all_reduce_grid(model, cluster, algorithms_to_try(cluster), overlaps)
    left_out = refusals_of(framework, grid, model, cluster)
    carried_out = {name: strategy for name, strategy in grid.items() if name not in left_out}
    return carried_out | ddp_grid(model, cluster) if framework == "pytorch" else carried_out


def is_of_grid(record: RuntimeRecord) -> bool:
    return record.purpose == "baseline" and record.label.startswith(f"{LABEL}, ")


def time_grid(job: Job, records: Sequence[RuntimeRecord], protocol: TimingProtocol) -> list[RuntimeRecord]:
    """Time the grid's strategies that are no baseline in the search's `records`, each as a baseline; return their
    records.

    A strategy that the search also found is timed too: it then counts as a baseline, and not as a gain. The searcher
    never receives these records, so a search is the same with a grid and without. A resumed run times the remaining
    strategies. A trial begins only if the time budget has room for it. Raises `NodesLostError`.
    """
    here = job.backend.cluster.digest
    kept = [
        record for record in job.store.read(run=job.directory.name) if is_of_grid(record) and record.outcome != "lost"
    ]
    grid_records = [record for record in kept if record.cluster.digest == here]
    grid = _grid(job)
    timed = {record.strategy.digest for record in (*records, *grid_records) if record.purpose == "baseline"}
    left = {name: strategy for name, strategy in grid.items() if strategy.digest not in timed}
    job.observer.say(
        f"Timing an all-reduce tuned by hand: {count_of(len(left), 'trial')} left of {len(grid)} combinations "
        f"of bucket size and algorithm ..."
    )
    reserve = Reserve(job.options.rounds, job.options.counterfactuals)
    for number, (name, strategy) in enumerate(left.items()):
        best = best_now([], [record for record in (*records, *grid_records) if record.purpose == "baseline"])
        request = TrialRequest(
            strategy, protocol, "baseline", f"{LABEL}, {name}", job.directory.name, job.options.seed, best
        )
        if reserve.is_out_of_time(1, [*records, *grid_records], job.seconds_left):
            job.observer.say(f"The time budget has no room for {len(left) - number} of these trials.")
            break
        try:
            grid_records += take_turns([request], 1, job.backend.run, partial(report_turn, job))[0]
        except NodesLostError:
            raise
        except TrialError as error:
            job.observer.say(f"The grid was not timed completely: {error}")
            break
    return grid_records

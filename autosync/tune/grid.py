"""The grid of an all-reduce tuned by hand, timed after a search as one more baseline."""

from collections.abc import Sequence

from autosync.baselines.tuned import all_reduce_grid, tried_by_hand
from autosync.errors import NodesLostError, TrialError
from autosync.spec import RuntimeRecord, TimingProtocol
from autosync.tune.budget import Reserve
from autosync.tune.finals import take_turns
from autosync.tune.job import Job
from autosync.tune.yardstick import best_now
from autosync.words.quantities import counted
from trials.trial import TrialRequest

LABEL = "tuned_all_reduce"


def is_of_grid(record: RuntimeRecord) -> bool:
    return record.purpose == "baseline" and record.label.startswith(f"{LABEL}, ")


def time_grid(job: Job, records: Sequence[RuntimeRecord], protocol: TimingProtocol) -> list[RuntimeRecord]:
    """The records of the grid's strategies that no baseline among the search's `records` is, each timed as one.

    One that the search has found by itself is timed too: it is a baseline then, and no gain. The searcher is never told
    of these trials, so a search goes the same way with a grid and without. A resumed run times the remaining
    strategies. No trial begins for which the time budget has no room. Raises `NodesLostError`.
    """
    here = job.backend.cluster.digest
    kept = [
        record for record in job.store.read(run=job.directory.name) if is_of_grid(record) and record.outcome != "lost"
    ]
    found = [record for record in kept if record.cluster.digest == here]
    grid = all_reduce_grid(job.backend.model, job.backend.cluster, tried_by_hand(job.backend.cluster))
    timed = {each.strategy.digest for each in (*records, *found) if each.purpose == "baseline"}
    left = {name: strategy for name, strategy in grid.items() if strategy.digest not in timed}
    job.console.print(
        f"Tuning all-reduce by hand: {counted(len(left), 'trial')} for what was not timed of a grid of {len(grid)} "
        f"bucket sizes and algorithms ...",
        soft_wrap=True,
    )
    reserve = Reserve(job.options.rounds, job.options.counterfactuals)
    for number, (name, strategy) in enumerate(left.items()):
        best = best_now([], [each for each in (*records, *found) if each.purpose == "baseline"])
        request = TrialRequest(
            strategy, protocol, "baseline", f"{LABEL}, {name}", job.directory.name, job.options.seed, best
        )
        if reserve.is_out_of_time(1, [*records, *found], job.seconds_left):
            job.console.print(f"The time budget has no room for {len(left) - number} of them.")
            break
        try:
            found += take_turns([request], 1, job.backend.run, job.append)[0]
        except NodesLostError:
            raise
        except TrialError as error:
            job.console.print(f"The grid was not timed to its end: {error}", soft_wrap=True)
            break
    return found

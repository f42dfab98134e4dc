"""The interface of searchers: a searcher proposes strategies to time and learns from their records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from autosync.spec import RuntimeRecord, Strategy
from autosync.spec.codec import Noun

GIVEN = "given"
"""The label of a strategy that the user passed to a search to be tried first."""


@dataclass(frozen=True)
class Proposal(Noun, what="A proposal", always=("predicted_seconds",)):
    """A strategy to time."""

    strategy: Strategy
    label: str
    """A word for the proposal's origin."""
    predicted_seconds: float | None = None
    """The predicted seconds per step; None without a prediction."""
    purpose: str = "search"
    """The purpose of the record to come: *baseline* for the baselines passed to a searcher, *search* for a searcher's
    own strategies. A collection also times strategies again, with the purpose *remeasure*.
    """


class Searcher(Protocol):
    """Chooses strategies of one space. Equal arguments and equal answers give equal proposals, in any process.

    Proposals depend on the answers to earlier proposals, in the order *proposed*. They never depend on the number of
    proposals per request or on the order in which answers arrive.
    """

    def ask(self, count: int) -> list[Proposal]:
        """Return up to `count` strategies that were never proposed or told before.

        The list is shorter, or empty, while the next strategy depends on missing answers. An empty list while no
        proposal is pending means that the space is exhausted.
        """
        ...

    def tell(self, record: RuntimeRecord) -> None:
        """Learn from `record`, whether it was proposed or not, with any outcome and in any order.

        A record that is told twice counts once. Records of another model or cluster are ignored. A record answers the
        pending proposal of its strategy.
        """
        ...

    def pending(self) -> list[Proposal]:
        """Return the proposals without an answer, in the order of their requests. After a crash, time them again."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the searcher's state as plain JSON values, in the form that `restore` takes."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`, saved by a searcher with the same arguments. Raises `SpecError`."""
        ...


@runtime_checkable
class Foresight(Protocol):
    """A searcher that estimates the gain of further search."""

    def expected_gain(self) -> float | None:
        """Return the share of the fastest step so far that the best recent proposal should save; None at first."""
        ...


FIRST_BASELINES = 3
"""The number of baselines timed before the first candidate."""


@runtime_checkable
class Weighing(Protocol):
    """A searcher that answers separate requests for baselines and for candidates, because trials are too few for all
    baselines.

    Its later proposals also depend on the times of these requests.
    """

    def baselines_left(self) -> int:
        """The number of baselines not yet proposed."""
        ...

    def ask_baselines(self, count: int) -> list[Proposal]:
        """Return up to `count` of the remaining baselines, with or without missing answers."""
        ...

    def ask_candidates(self, count: int) -> list[Proposal]:
        """Return up to `count` proposals as `ask` does, without baselines after the first `FIRST_BASELINES`."""
        ...


def ask_within(searcher: Searcher, trials: int) -> list[Proposal]:
    """Return at most one proposal, if `trials` more will be timed. Every second one of the last trials is a baseline.

    The searcher postpones baselines that it expects to be slow. If that expectation is wrong, the searcher learns so
    while it can still search near the baseline. If trials are too few for all baselines, candidates get at least half
    of the trials after the first `FIRST_BASELINES`.
    """
    left = searcher.baselines_left() if isinstance(searcher, Weighing) else 0
    if not left or 2 * left < trials:
        return searcher.ask(1)
    return ask_for(searcher, is_candidate=trials % 2 == 1 and 2 * left > trials)


def ask_for(searcher: Searcher, is_candidate: bool) -> list[Proposal]:
    """Return at most one proposal: a candidate or a baseline, or the other kind if the requested kind is exhausted."""
    assert isinstance(searcher, Weighing), (
        "only a `Weighing` searcher has separate requests for baselines and candidates"
    )
    if not is_candidate:
        return searcher.ask_baselines(1) or searcher.ask(1)
    return searcher.ask_candidates(1) or ([] if searcher.pending() else searcher.ask_baselines(1))


def run_search(
    searcher: Searcher,
    evaluate: Callable[[Proposal], RuntimeRecord],
    trials: int,
    on_record: Callable[[RuntimeRecord], None] | None = None,
) -> list[RuntimeRecord]:
    """Time up to `trials` proposals one after the other, and return their records in order.

    Fewer proposals are timed if the space is exhausted. Otherwise all baselines are among them, if there are enough
    trials. `on_record` gets each record before the searcher does, so that the store is never behind the searcher.
    Proposals that were pending when a search stopped come first.
    """
    records: list[RuntimeRecord] = []
    unfinished = searcher.pending()
    while len(records) < trials:
        proposals = unfinished[:1] or ask_within(searcher, trials - len(records))
        del unfinished[:1]
        if not proposals:
            break
        record = evaluate(proposals[0])
        if on_record is not None:
            on_record(record)
        searcher.tell(record)
        records.append(record)
    return records

"""The interface of searchers: strategies to time next, in return for records of those timed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from autosync.spec import RuntimeRecord, Strategy
from autosync.spec.codec import Noun

GIVEN = "given"
"""The label of a strategy that a search was given to try first."""


@dataclass(frozen=True)
class Proposal(Noun, what="A proposal", always=("predicted_seconds",)):
    """A strategy to time. `label` says in a word where it comes from; `predicted_seconds` is a step's, if predicted.

    `purpose` is that of the record to come: *baseline* for those a searcher was given, *search* for its own. A
    collection also times strategies again, *remeasure*.
    """

    strategy: Strategy
    label: str
    predicted_seconds: float | None = None
    purpose: str = "search"


class Searcher(Protocol):
    """Chooses strategies of one space. The same arguments and answers give the same proposals, in any process.

    Proposals depend on the answers to earlier proposals, in the order *proposed*, and never on how many are
    asked for at once or in which order answers arrive.
    """

    def ask(self, count: int) -> list[Proposal]:
        """Up to `count` strategies never proposed or told before.

        Fewer, or none, while the next one depends on answers that are not in. None with nothing pending: the space is
        used up.
        """
        ...

    def tell(self, record: RuntimeRecord) -> None:
        """Learn from `record`, asked for or not, with any outcome and in any order; told twice, it counts once.

        Records of another model or cluster are passed over. A record answers the pending proposal of its strategy.
        """
        ...

    def pending(self) -> list[Proposal]:
        """Proposals that were asked for and not told, in the order asked; after a crash, they are to be timed again."""
        ...

    def state(self) -> dict[str, Any]:
        """The searcher's state, which `restore` takes, as plain JSON values."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`, which a searcher made with the same arguments has given. Raises `SpecError`."""
        ...


@runtime_checkable
class Foresight(Protocol):
    """A searcher that says what going on is worth."""

    def expected_gain(self) -> float | None:
        """The share of the best step so far that the best recent proposal is expected to save; None at first."""
        ...


FIRST_BASELINES = 3
"""The baselines that are timed before the first candidate."""


@runtime_checkable
class Weighing(Protocol):
    """A searcher that can be asked for a baseline or a candidate, because trials are too few for all baselines.

    Its later proposals also depend on when either is asked for.
    """

    def baselines_left(self) -> int:
        """How many baselines are yet to propose."""
        ...

    def ask_baselines(self, count: int) -> list[Proposal]:
        """Up to `count` of the baselines left, whether or not answers are in."""
        ...

    def ask_candidates(self, count: int) -> list[Proposal]:
        """Up to `count` proposals like those of `ask`, without baselines after the first `FIRST_BASELINES`."""
        ...


def ask_within(searcher: Searcher, trials: int) -> list[Proposal]:
    """The next proposal, at most one, if `trials` more will be timed. Every second of the last trials is a baseline.

    The searcher has put baselines off because it expected little of them. Where that is wrong, it learns so while it
    can still go on from there. If trials are too few for all baselines, candidates get at least half of those after the
    first `FIRST_BASELINES`.
    """
    left = searcher.baselines_left() if isinstance(searcher, Weighing) else 0
    if not left or 2 * left < trials:
        return searcher.ask(1)
    return ask_for(searcher, is_candidate=trials % 2 == 1 and 2 * left > trials)


def ask_for(searcher: Searcher, is_candidate: bool) -> list[Proposal]:
    """The next proposal, at most one: a candidate or a baseline, or the other kind where a kind is used up."""
    assert isinstance(searcher, Weighing), "only a searcher that weighs can be asked for either"
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

    Fewer are timed when the space is used up; else all baselines are among them, if there are trials enough.
    `on_record` gets each record before the searcher does, so that the store is never behind the
    searcher. Proposals that were pending when a search stopped come first.
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

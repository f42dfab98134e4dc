"""Records to judge and to teach by: all there are, or, of very many, a sample and a survey of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import final

from autosync.engine.version import ENGINE
from autosync.spec import RuntimeRecord
from autosync.spec.address import Place
from autosync.studies.evaluation.cells import check_kinds, folder_of, stored_records
from autosync.studies.evaluation.survey import (
    MOST_STRATEGIES,
    MOST_TRIALS,
    Survey,
    is_large,
    ray_here,
    surveyed,
)


@final
@dataclass(frozen=True, eq=False)
class Source:
    """`records` of one kind; where they are a sample, `survey` is of all."""

    records: list[RuntimeRecord]
    survey: Survey | None = None

    @property
    def is_whole(self) -> bool:
        return self.survey is None or len(self.survey) == len(self.records)

    def in_words(self) -> Iterator[str]:
        """Sentences where not all there are is in memory, and where several engines have timed them."""
        if self.survey is not None and not self.is_whole:
            yield (
                f"Of {len(self.survey)} timed records, {len(self.records)} are a sample to judge by: of a cell at most "
                f"{MOST_STRATEGIES} strategies, and {MOST_TRIALS} trials of each."
            )
        engines = Counter(each.engine for each in self.records)
        if len(engines) > 1 or ENGINE not in engines:
            counts = ", ".join(f"{count} of version {engine or 'unknown'}" for engine, count in sorted(engines.items()))
            yield (
                f"The present engine is of version {ENGINE}, and may take other times than these records say: {counts}."
            )


@contextmanager
def opened(data: Place, kind: str | None = None, workers: int | None = None) -> Iterator[Source]:
    """The records at `data`, of `kind` or all of one; Ray streams them where they are many or `workers` want them.

    Raises `EvaluationError` as `stored_records` does.
    """
    folder = folder_of(data)
    if workers is None and not is_large(folder):
        yield Source(stored_records(data, kind))
        return
    with ExitStack() as stack:
        stack.enter_context(ray_here(workers))
        survey = surveyed(folder)
        check_kinds(folder, survey.kinds, kind)
        survey = survey.of_kind(kind or survey.kinds[0])
        yield Source(survey.sample().records(), survey)

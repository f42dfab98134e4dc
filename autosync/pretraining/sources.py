"""Records for training and evaluation: all in memory, or, for very many, a sample with a survey of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import final

from autosync.engine.core.registry import DEFAULT
from autosync.engine.core.versions import VERSIONS
from autosync.pretraining.cells import choose_kind, folder_of, read_records
from autosync.pretraining.survey import (
    MOST_STRATEGIES,
    MOST_TRIALS,
    Survey,
    is_large,
    ray_here,
    survey_records,
)
from autosync.spec import RuntimeRecord
from autosync.spec.address import Place


@final
@dataclass(frozen=True, eq=False)
class Source:
    """Records of one kind."""

    records: list[RuntimeRecord]
    survey: Survey | None = None
    """A survey of all records, of which `records` may be a sample; None if the survey was not needed."""

    @property
    def is_whole(self) -> bool:
        return self.survey is None or len(self.survey) == len(self.records)

    @property
    def framework(self) -> str | None:
        """The records' framework, as records name it."""
        return self.records[0].framework

    def in_words(self) -> Iterator[str]:
        """Yield sentences if only a sample is in memory, and if other engines have timed the records."""
        if self.survey is not None and not self.is_whole:
            yield (
                f"The evaluation uses a sample of {len(self.records)} of {len(self.survey)} timed records: per cell "
                f"at most {MOST_STRATEGIES} strategies, and {MOST_TRIALS} trials of each."
            )
        present = VERSIONS[self.framework or DEFAULT]
        engines = Counter(record.engine for record in self.records)
        if len(engines) > 1 or present not in engines:
            counts = ", ".join(f"{count} of version {engine or 'unknown'}" for engine, count in sorted(engines.items()))
            yield (
                f"The present engine has version {present}; its times may differ from those of these records: {counts}."
            )


@contextmanager
def open_source(
    data: Place, kind: str | None = None, workers: int | None = None, framework: str | None = None
) -> Iterator[Source]:
    """Yield the records at `data` that `choose_kind` chooses. Ray streams many records, or for `workers`.

    Raises the errors of `read_records`.
    """
    folder = folder_of(data)
    if workers is None and not is_large(folder):
        yield Source(read_records(data, kind, framework))
        return
    with ExitStack() as stack:
        stack.enter_context(ray_here(workers))
        survey = survey_records(folder)
        survey = survey.of_kind(choose_kind(folder, survey.kinds, kind, framework))
        yield Source(survey.sample().records(), survey)

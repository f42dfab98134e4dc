"""Tables: a caption, a header and rows of text, written as Markdown and as CSV."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autosync.stats.estimate import Estimate

NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """`name` names its CSV file; `about` says in a sentence or two what the rows and columns are."""

    name: str
    title: str
    about: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def markdown(self) -> str:
        """The table's title, what it is about, and its rows; or that there is nothing yet."""
        lines = [f"## {self.title}", "", self.about, ""]
        if not self.rows:
            return "\n".join([*lines, "There are no results for this yet.", ""])
        return "\n".join([*lines, *ruled(self.header, self.rows), ""])

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()


def ruled(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield _row(header)
    yield "|" + "---|" * len(header)
    yield from map(_row, rows)


def in_percent(estimate: Estimate) -> str:
    """An estimate of a share, such as `12.1 % [10.3, 14.2]`."""
    if math.isnan(estimate.value):
        return NOTHING
    return f"{tenths(100 * estimate.value)} % [{tenths(100 * estimate.low)}, {tenths(100 * estimate.high)}]"


def percent(share: float) -> str:
    return NOTHING if not math.isfinite(share) else f"{tenths(100 * share)} %"


def tenths(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}"  # no -0.0


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

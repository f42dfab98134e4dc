"""Tables with a caption, a header and rows of text, written as Markdown and as CSV."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autosync.stats.estimate import Estimate

NOTHING = "-"


@dataclass(frozen=True)
class TextTable:
    """A table of text cells."""

    name: str
    """Name of the CSV file, without its ending."""
    title: str
    about: str
    """A sentence or two about rows and columns."""
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def markdown(self) -> str:
        """Title, description and rows in Markdown, or a sentence that there are no results yet."""
        lines = [f"## {self.title}", "", self.about, ""]
        if not self.rows:
            return "\n".join([*lines, "There are no results for this yet.", ""])
        return "\n".join([*lines, *markdown_rows(self.header, self.rows), ""])

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()


def markdown_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
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

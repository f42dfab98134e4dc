"""Tables for a terminal of any width: numbers and digests stay whole, and texts fold.

A narrow terminal gets fewer columns, and a very narrow one gets a block for each row.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from autosync.terminal import Terminal, columns, wrap

GAP = 2
"""Spaces between columns."""

LONGEST_WORD = 40
"""The maximum length of a word in a column of texts that is not folded."""


@final
class FittedTable:
    """A table that fits its terminal. `texts` may fold; all other columns are `numbers` or short `words`.

    If the columns do not fit next to each other, those that are `optional` are left out, and a last line names them. If
    the other columns do not fit either, each row becomes a block: its first cell, then titles with their cells.
    """

    def __init__(self) -> None:
        self._titles: list[str] = []
        self._cells: list[tuple[Sequence[str], str | None]] = []
        self._folding: list[bool] = []
        self._justify: list[str] = []
        self._optional: tuple[str, ...] = ()

    def texts(self, *titles: str) -> None:
        for title in titles:
            self._add(title, folding=True)

    def numbers(self, *titles: str) -> None:
        for title in titles:
            self._add(title, justify="right")

    def words(self, *titles: str) -> None:
        for title in titles:
            self._add(title)

    def optional(self, *titles: str) -> None:
        """State the columns that a narrow table leaves out, the first of `titles` first."""
        self._optional = titles

    def row(self, cells: Sequence[str], style: str | None = None) -> None:
        self._cells.append((cells, style))

    def lines(self, indent: int = 0) -> list[str]:
        """The lines of the table at the width of standard output, less the `indent` of the caller."""
        console = Terminal(file=io.StringIO(), width=max(columns(sys.stdout.isatty()) - indent, 1))
        console.print(self)
        assert isinstance(console.file, io.StringIO)
        return [line.rstrip() for line in console.file.getvalue().splitlines()]

    def _add(self, title: str, folding: bool = False, justify: str = "left") -> None:
        self._titles.append(title)
        self._folding.append(folding)
        self._justify.append(justify)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for count in range(len(self._optional) + 1):
            left_out = self._optional[:count]
            shown = [at for at, title in enumerate(self._titles) if title not in left_out]
            widths = self._widths(shown, options.max_width)
            if widths is not None:
                yield self._table(shown, widths)
                if left_out:
                    names = [title for title in self._titles if title in left_out]
                    yield Text(wrap(f"A wider terminal also shows: {', '.join(names)}.", options.max_width))
                return
        yield from self._blocks(options.max_width)

    def _table(self, shown: Sequence[int], widths: Sequence[int]) -> Table:
        """A table of the columns `shown`, by their indices, with these widths."""
        table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
        for at, width in zip(shown, widths, strict=True):
            table.add_column(
                Text(self._titles[at]),
                justify=self._justify[at],  # type: ignore[arg-type]
                no_wrap=not self._folding[at],
                overflow="fold",
                width=width,
            )
        for cells, style in self._cells:
            table.add_row(*(Text(cells[at]) for at in shown), style=style)
        return table

    def _widths(self, shown: Sequence[int], most: int) -> list[int] | None:
        """The widths of the columns `shown` in at most `most` columns of the terminal; None if they do not fit."""
        in_columns = [[self._titles[at], *(cells[at] for cells, _ in self._cells)] for at in shown]
        widths = [max(map(cell_len, cells)) for cells in in_columns]
        least = [
            max(map(_least_width, cells)) if self._folding[at] else width
            for cells, at, width in zip(in_columns, shown, widths, strict=True)
        ]
        gaps = GAP * (len(widths) - 1)
        if sum(least) + gaps > most:
            return None
        for _ in range(sum(widths) + gaps - most):
            widest = max((at for at, width in enumerate(widths) if width > least[at]), key=widths.__getitem__)
            widths[widest] -= 1
        return widths

    def _blocks(self, most: int) -> RenderResult:
        for cells, style in self._cells:
            pairs = [f"{title} {cell}".strip() for title, cell in zip(self._titles[1:], cells[1:], strict=True) if cell]
            lines = [*wrap(cells[0], most).split("\n"), ""]
            for pair in pairs:
                if lines[-1] and 2 * GAP + cell_len(lines[-1]) + cell_len(pair) > most:
                    lines.append("")
                lines[-1] += f"{' ' * GAP}{pair}"
            yield Text("\n".join(filter(None, lines)), style=style or "", overflow="ignore", no_wrap=True)


def _least_width(cell: str) -> int:
    """The width of a folded cell: that of its longest word, and of spaces before the first word."""
    indent = cell_len(cell) - cell_len(cell.lstrip())
    return indent + max((min(cell_len(word), LONGEST_WORD) for word in cell.split()), default=0)

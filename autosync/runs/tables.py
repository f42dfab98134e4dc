"""Tables for a terminal of any width: numbers and digests stay whole, texts fold, and a narrow one gets blocks."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from autosync.terminal import Terminal, columns, wrapped

GAP = 2
"""Spaces between columns."""

LONGEST_WORD = 40
"""A column of texts folds words only if they have more characters."""


@final
class FittedTable(Table):
    """A table that fits its terminal. `texts` may fold; all other columns are `numbers` or short `words`.

    Where the columns do not fit side by side, each row becomes a block: its first cell, then titles with their cells.
    """

    def __init__(self) -> None:
        super().__init__(box=None, padding=(0, GAP, 0, 0), header_style="bold")
        self._titles: list[str] = []
        self._cells: list[tuple[Sequence[str], str | None]] = []
        self._folding: list[bool] = []

    def texts(self, *titles: str) -> None:
        for title in titles:
            self._add(title, folding=True)

    def numbers(self, *titles: str) -> None:
        for title in titles:
            self._add(title, justify="right")

    def words(self, *titles: str) -> None:
        for title in titles:
            self._add(title)

    def row(self, cells: Sequence[str], style: str | None = None) -> None:
        self._cells.append((cells, style))
        self.add_row(*(Text(cell) for cell in cells), style=style)

    def lines(self) -> list[str]:
        """The table as it fits standard output."""
        console = Terminal(file=io.StringIO(), width=columns(sys.stdout.isatty()))
        console.print(self)
        assert isinstance(console.file, io.StringIO)
        return [line.rstrip() for line in console.file.getvalue().splitlines()]

    def _add(self, title: str, folding: bool = False, justify: str = "left") -> None:
        self._titles.append(title)
        self._folding.append(folding)
        self.add_column(Text(title), justify=justify, no_wrap=not folding, overflow="fold")  # type: ignore[arg-type]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width)
        if widths is None:
            yield from self._blocks(options.max_width)
            return
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        yield from super().__rich_console__(console, options)

    def _widths(self, most: int) -> list[int] | None:
        """The width of every column in at most `most` columns of the terminal; None if they do not fit."""
        in_columns = [[title, *(row[at] for row, _ in self._cells)] for at, title in enumerate(self._titles)]
        widths = [max(map(cell_len, cells)) for cells in in_columns]
        least = [
            max(min(cell_len(word), LONGEST_WORD) for cell in cells for word in cell.split() or [""])
            if folding
            else width
            for cells, folding, width in zip(in_columns, self._folding, widths, strict=True)
        ]
        excess = sum(widths) + GAP * len(widths) - most
        if sum(least) + GAP * len(widths) > most:
            return None
        while excess > 0:
            widest = max((at for at, width in enumerate(widths) if width > least[at]), key=widths.__getitem__)
            widths[widest] -= 1
            excess -= 1
        return widths

    def _blocks(self, most: int) -> RenderResult:
        for cells, style in self._cells:
            pairs = [f"{title} {cell}".strip() for title, cell in zip(self._titles[1:], cells[1:], strict=True) if cell]
            lines = [*wrapped(cells[0], most).split("\n"), ""]
            for pair in pairs:
                if lines[-1] and 2 * GAP + cell_len(lines[-1]) + cell_len(pair) > most:
                    lines.append("")
                lines[-1] += f"{' ' * GAP}{pair}"
            yield Text("\n".join(filter(None, lines)), style=style or "", overflow="ignore", no_wrap=True)

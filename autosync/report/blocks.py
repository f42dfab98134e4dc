"""The parts of a page: sections of paragraphs, tables, pictures, facts and commands. Text is plain, never markup."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from matplotlib.figure import Figure

from autosync.report.style import Width


@dataclass(frozen=True)
class Paragraph:
    text: str
    kind: str = "paragraph"


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    lines: Sequence[str]
    kind: str = "points"


@dataclass(frozen=True)
class Note:
    """A note on why a section is empty."""

    text: str
    kind: str = "note"


@dataclass(frozen=True)
class TableColumn:
    """A column of a table; `numeric` if its cells are compared by their digits."""

    title: str
    numeric: bool = False


def texts(*titles: str) -> tuple[TableColumn, ...]:
    return tuple(TableColumn(title) for title in titles)


def numbers(*titles: str) -> tuple[TableColumn, ...]:
    return tuple(TableColumn(title, numeric=True) for title in titles)


@dataclass(frozen=True)
class TableRow:
    """A row with one cell per column. `strong` highlights the row; `colour` (a name of `COLOURS`) puts a mark in
    front.
    """

    cells: tuple[str, ...]
    strong: bool = False
    colour: str = ""


@dataclass(frozen=True)
class Table:
    """A table. `caption` explains how to read it and its intervals; `folded`, if given, is a text to click to show
    the table.
    """

    columns: tuple[TableColumn, ...]
    rows: Sequence[TableRow]
    caption: str = ""
    folded: str = ""
    kind: str = "table"


@dataclass(frozen=True)
class Drawing:
    """A figure, and the texts shown over its marks: see `autosync.report.page.inline_svg`."""

    figure: Figure
    tooltips: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """A picture that is drawn once per width. `name` is its file's name, `alt` the text for readers who cannot see
    it.
    """

    name: str
    alt: str
    caption: str
    draw: Callable[[Width], Drawing]
    kind: str = "picture"


@dataclass(frozen=True)
class Facts:
    """Names with explanations."""

    pairs: Sequence[tuple[str, str]]
    kind: str = "facts"


@dataclass(frozen=True)
class Commands:
    """Commands to type, each with its purpose."""

    lines: Sequence[tuple[str, str]]
    kind: str = "commands"


Block: TypeAlias = Paragraph | Points | Note | Table | Picture | Facts | Commands


@dataclass(frozen=True)
class Headline:
    """The head of a page: a `figure` with its uncertainty, a sentence, advice, and a few facts."""

    title: str

    figure: str
    """The main number of the page."""

    unit: str
    """The meaning of the figure."""

    uncertainty: str
    """The figure's interval."""

    sentence: str
    """The result in words."""

    advice: str
    """The next thing to do."""

    lines: Sequence[tuple[str, str]] = ()
    """Commands to type, as in `Commands`."""

    facts: Sequence[tuple[str, str]] = ()
    """Names with values."""


@dataclass(frozen=True)
class Section:
    """A section of a page. `key` is its anchor in the page, and `short` its name for the navigation."""

    key: str
    title: str
    short: str
    blocks: Sequence[Block]

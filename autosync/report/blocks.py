"""What a page is made of: sections of paragraphs, tables, pictures, facts and commands. Text is plain, never markup."""

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
    """A note on why a section has nothing to show."""

    text: str
    kind: str = "note"


@dataclass(frozen=True)
class Column:
    """A column is `numeric` where its cells are to be compared by their digits."""

    title: str
    numeric: bool = False


def texts(*titles: str) -> tuple[Column, ...]:
    return tuple(Column(title) for title in titles)


def numbers(*titles: str) -> tuple[Column, ...]:
    return tuple(Column(title, numeric=True) for title in titles)


@dataclass(frozen=True)
class Row:
    """One cell a column; `strong` is for the row that matters, `colour` (a name of `COLOURS`) for a mark in front."""

    cells: tuple[str, ...]
    strong: bool = False
    colour: str = ""


@dataclass(frozen=True)
class Table:
    """`caption` says how to read it, and what its intervals are; `folded`, if given, is a text to click to show it."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    caption: str = ""
    folded: str = ""
    kind: str = "table"


@dataclass(frozen=True)
class Drawing:
    """A figure, and texts to show over its marks: see `autosync.report.page.inline_svg`."""

    figure: Figure
    tooltips: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """A picture, drawn once a width: `name` is its file's, `alt` for who does not see it, `caption` as a table's."""

    name: str
    alt: str
    caption: str
    draw: Callable[[Width], Drawing]
    kind: str = "picture"


@dataclass(frozen=True)
class Facts:
    """Names, each with what there is to say of it."""

    pairs: Sequence[tuple[str, str]]
    kind: str = "facts"


@dataclass(frozen=True)
class Commands:
    """Lines to type, each with what it does."""

    lines: Sequence[tuple[str, str]]
    kind: str = "commands"


Block: TypeAlias = Paragraph | Points | Note | Table | Picture | Facts | Commands


@dataclass(frozen=True)
class Headline:
    """What a page says before all else: a `figure` with its uncertainty, a sentence, what to do, and a few facts.

    `lines` are commands to type, as in `Commands`.
    """

    title: str
    figure: str
    unit: str
    uncertainty: str
    sentence: str
    advice: str
    lines: Sequence[tuple[str, str]] = ()
    facts: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Section:
    """A section of a page: `key` is its address there, and `short` its name where there is little room."""

    key: str
    title: str
    short: str
    blocks: Sequence[Block]

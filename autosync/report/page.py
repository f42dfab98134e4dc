"""Writes a page: a headline and sections become one self-contained HTML file, and its pictures also become PNG
files.
"""

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from matplotlib.text import Text

from autosync.files import inner_folder, make_folder, replacing, write_atomically
from autosync.report.blocks import Headline, Picture, Section
from autosync.report.findings import Findings
from autosync.report.sections import headline_of, sections_of
from autosync.report.style import COLOURS, NARROW, RC, WIDE
from autosync.runs import Run
from autosync.spec.quoting import printable

SVG = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"
NO_METADATA = dict.fromkeys(("Date", "Creator", "Type", "Format"))
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
FONT_FAMILY = re.compile(r"\s*font-family:[^;]*;?")
VARIABLES = {colour.light: f"var(--{colour.name})" for colour in COLOURS}
ANY_COLOUR = re.compile("|".join(map(re.escape, VARIABLES)))


def inline_svg(figure: Figure, name: str, alt: str, tooltips: Mapping[str, Sequence[str]]) -> str:
    """The figure as an `svg` element without a fixed size. `name` is unique in its page.

    `tooltips` are shown over the marks of artists by their gid, one text per mark, in drawing order.
    """
    text = io.StringIO()
    _make_printable(figure)
    figure.savefig(text, format="svg", metadata=NO_METADATA)
    root = ET.fromstring(printable(text.getvalue()))  # tick labels are made only while the figure is drawn
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in (f"{{{SVG}}}style", f"{{{SVG}}}metadata")]:
            parent.remove(child)
    _add_tooltips(root, tooltips)
    for element in root.iter():
        _make_its_own(element, name)
    for unused in ("width", "height", "version"):
        root.attrib.pop(unused, None)
    root.attrib |= {"role": "img", "aria-label": alt}
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{SVG}}}")
    return ET.tostring(root, encoding="unicode")


def _make_printable(figure: Figure) -> None:
    """Escape control characters in the figure's texts, because XML has none and fonts have no glyphs for them."""
    for artist in figure.findobj(Text):
        assert isinstance(artist, Text)
        artist.set_text(printable(artist.get_text()))


def _add_tooltips(root: ET.Element, tooltips: Mapping[str, Sequence[str]]) -> None:
    for group in root.iter(f"{{{SVG}}}g"):
        marks = group.iter(f"{{{SVG}}}use")
        for mark, text in zip(list(marks), tooltips.get(group.get("id", ""), ()), strict=False):
            ET.SubElement(mark, f"{{{SVG}}}title").text = text


def _make_its_own(element: ET.Element, name: str) -> None:
    """Give the element ids that are unique in the page, plain links, short numbers, and the page's colours and
    fonts.
    """
    attributes = dict(element.attrib)
    if LINK in attributes:
        attributes["href"] = attributes.pop(LINK)
    if "id" in attributes:
        # Matplotlib gives groups the same ids in every figure, and nothing refers to them.
        identity = attributes.pop("id")
        if element.tag != f"{{{SVG}}}g":
            attributes["id"] = f"{name}-{identity}"
    for key, value in attributes.items():
        if key == "style":
            value = FONT_FAMILY.sub("", ANY_COLOUR.sub(lambda match: VARIABLES[match[0]], value))
        elif key == "href":
            value = value.replace("#", f"#{name}-")
        elif key == "clip-path":
            value = value.replace("url(#", f"url(#{name}-")
        if key in ("d", "x", "y", "transform", "points"):
            value = LONG_NUMBER.sub(lambda match: f"{float(match[0]):.2f}", value)
        attributes[key] = value.strip()
    element.attrib.clear()
    element.attrib |= attributes


DOTS_PER_INCH = 160
UNITS = r"(?:%|ms|s|min|h|B|kB|MB|GB|\N{MULTIPLICATION SIGN})"
TOGETHER = re.compile(rf"(?<=\d) (?={UNITS}(?:\W|$))|(?<=\bn) (?==)|(?<=\bn =) ")
"""The spaces at which a line must not break: those before a unit, and in n = 12."""


@dataclass(frozen=True)
class Page:
    """A page. `kicker` is the line under the title; `footer` is the last line."""

    headline: Headline
    sections: Sequence[Section]
    kicker: str
    footer: str


def write_page(page: Page, file: Path, pictures: str | None) -> Path:
    """Write `file`, and PNG files into the folder `pictures` next to it, each atomically. Raises `AutosyncError`."""
    settings = dict[Any, Any](RC)
    make_folder(file.parent)
    folder = None if pictures is None else inner_folder(file.parent, pictures)
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawn = {picture.name: _draw_both_widths(picture, folder) for picture in _pictures(page.sections)}
    write_atomically(file, _render(page, drawn))
    return file


def _pictures(sections: Sequence[Section]) -> Iterator[Picture]:
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Picture):
                yield block


def _draw_both_widths(picture: Picture, folder: Path | None) -> Markup:
    """Draw the picture at both widths, because a page shows the one that fits; also write the wide picture to
    `folder`.
    """
    parts = []
    for width in (WIDE, NARROW):
        drawing = picture.draw(width)
        svg = inline_svg(drawing.figure, f"{picture.name}-{width.name}", picture.alt, drawing.tooltips)
        parts.append(svg.replace("<svg ", f'<svg class="{width.name}" ', 1))
        if folder is not None and width is WIDE:
            with replacing(folder / f"{picture.name}.png") as png:
                drawing.figure.savefig(png, format="png", dpi=DOTS_PER_INCH)
    # The texts in the SVG were escaped when the figure was written.
    return Markup("\n").join(map(Markup, parts))


def _render(page: Page, drawn: dict[str, Markup]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("autosync.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"breakable": _breakable, "text": _keep_units_together}
    style, _, _ = environment.loader.get_source(environment, "style.css")  # type: ignore[union-attr]
    template = environment.get_template("page.html", globals={"drawn": drawn})
    text = template.render(
        headline=page.headline,
        sections=page.sections,
        kicker=page.kicker,
        footer=page.footer,
        colours=Markup(_colours()),
        style=Markup(style),
    )
    return printable(text.lstrip())


def _keep_units_together(text: str) -> str:
    """The text with no-break spaces between numbers and units, and with speed-ups kept whole."""
    return TOGETHER.sub("\N{NO-BREAK SPACE}", text).replace("speed-up", "speed\N{NON-BREAKING HYPHEN}up")


def _breakable(text: str) -> Markup:
    """The text with line breaks allowed after slashes and underscores, because names of variables have many."""
    return Markup(re.sub("([/_])", r"\1<wbr>", str(escape(text))))


def _colours() -> str:
    """Variables of the style sheet. Paper and light screens use the light colours."""
    light = " ".join(f"--{colour.name}: {colour.light};" for colour in COLOURS)
    dark = " ".join(f"--{colour.name}: {colour.dark};" for colour in COLOURS)
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


def write_report(run: Run, out: Path | None = None) -> Path:
    """Write the report of `run` to `out`, by default `report.html` in its directory with PNG files in `report/`.

    A sentence on the page names each part that the run lacks. Raises `AutosyncError` if a file cannot be written.
    """
    findings = Findings(run)
    page = Page(
        headline_of(findings),
        sections_of(findings),
        _kicker(run),
        f"Made by autosync from {run.directory}; the page loads nothing from elsewhere.",
    )
    return write_page(page, out or run.directory / "report.html", "report" if out is None else None)


def _kicker(run: Run) -> str:
    if not run.records:
        return f"Run {run.title}"
    began = datetime.fromtimestamp(run.records[0].started_at, timezone.utc)
    return f"Run {run.title}, {began:%Y-%m-%d}"

"""A page: a headline and sections become one HTML file with everything inside, and its pictures PNG files beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
from markupsafe import Markup, escape

from autosync.errors import AutosyncError
from autosync.report.blocks import Headline, Picture, Section
from autosync.report.style import COLOURS, NARROW, RC, WIDE
from autosync.report.svg import inline_svg

__all__ = ["Page", "write_page"]

DOTS_PER_INCH = 160
UNITS = r"(?:%|ms|s|min|h|B|kB|MB|GB|\N{MULTIPLICATION SIGN})"
TOGETHER = re.compile(rf"(?<=\d) (?={UNITS}(?:\W|$))|(?<=\bn) (?==)|(?<=\bn =) ")
"""The spaces at which no line may end: those before a unit, and in n = 12."""


@dataclass(frozen=True)
class Page:
    """A page: `kicker` stands under the title, `footer` at the end."""

    headline: Headline
    sections: Sequence[Section]
    kicker: str
    footer: str


def write_page(page: Page, file: Path, pictures: Path | None) -> Path:
    """Write `file`, and PNG files into the folder `pictures`, each in one move. Raises `AutosyncError`."""
    settings = dict[Any, Any](RC)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if pictures is not None:
            pictures.mkdir(exist_ok=True)
        with mpl.rc_context(settings):
            drawn = {each.name: _drawn(each, pictures) for each in _pictures(page.sections)}
        _write(file, _rendered(page, drawn))
    except OSError as error:
        raise AutosyncError(f"The report cannot be written to {file}: {error.strerror}; name another.") from None
    return file


def _pictures(sections: Sequence[Section]) -> Iterator[Picture]:
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Picture):
                yield block


def _drawn(picture: Picture, folder: Path | None) -> Markup:
    """The picture at both widths, of which a page shows one; the wide one is written to `folder` as well."""
    parts = []
    for width in (WIDE, NARROW):
        drawing = picture.draw(width)
        svg = inline_svg(drawing.figure, f"{picture.name}-{width.name}", picture.alt, drawing.tooltips)
        parts.append(svg.replace("<svg ", f'<svg class="{width.name}" ', 1))
        if folder is not None and width is WIDE:
            partial = folder / f".{picture.name}.png"
            drawing.figure.savefig(partial, format="png", dpi=DOTS_PER_INCH)
            os.replace(partial, folder / f"{picture.name}.png")
    # The texts in it were escaped when the figure was written.
    return Markup("\n").join(map(Markup, parts))


def _rendered(page: Page, drawn: dict[str, Markup]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("autosync.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"breakable": _breakable, "text": _unbroken}
    style, _, _ = environment.loader.get_source(environment, "style.css")  # type: ignore[union-attr]
    template = environment.get_template("page.html", globals={"drawn": drawn})
    return template.render(
        headline=page.headline,
        sections=page.sections,
        kicker=page.kicker,
        footer=page.footer,
        colours=Markup(_colours()),
        style=Markup(style),
    ).lstrip()


def _unbroken(text: str) -> str:
    """The text, with numbers kept on a line with their units, and speed-ups kept whole."""
    return TOGETHER.sub("\N{NO-BREAK SPACE}", text).replace("speed-up", "speed\N{NON-BREAKING HYPHEN}up")


def _breakable(text: str) -> Markup:
    """The text, which may be broken behind slashes and underscores: names of variables have many of them."""
    return Markup(re.sub("([/_])", r"\1<wbr>", str(escape(text))))


def _colours() -> str:
    """Variables of the style sheet; paper and light screens have the light ones."""
    light = " ".join(f"--{each.name}: {each.light};" for each in COLOURS)
    dark = " ".join(f"--{each.name}: {each.dark};" for each in COLOURS)
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)

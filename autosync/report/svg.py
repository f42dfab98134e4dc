"""A matplotlib figure as SVG to put into a page: no links, colours from the page, identities of its own, tooltips."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from autosync.report.style import COLOURS

__all__ = ["inline_svg"]

SVG = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"
NO_METADATA = dict.fromkeys(("Date", "Creator", "Type", "Format"))
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
FONT_FAMILY = re.compile(r"\s*font-family:[^;]*;?")
VARIABLES = {colour.light: f"var(--{colour.name})" for colour in COLOURS}
ANY_COLOUR = re.compile("|".join(map(re.escape, VARIABLES)))


def inline_svg(figure: Figure, name: str, alt: str, tooltips: Mapping[str, Sequence[str]]) -> str:
    """The figure as an `svg` element without size of its own. `name` is unique in its page.

    `tooltips` are shown over the marks of artists by their gid, one text a mark, in the order drawn.
    """
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata=NO_METADATA)
    root = ET.fromstring(text.getvalue())
    for parent in list(root.iter()):
        for child in [each for each in parent if each.tag in (f"{{{SVG}}}style", f"{{{SVG}}}metadata")]:
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


def _add_tooltips(root: ET.Element, tooltips: Mapping[str, Sequence[str]]) -> None:
    for group in root.iter(f"{{{SVG}}}g"):
        marks = group.iter(f"{{{SVG}}}use")
        for mark, text in zip(list(marks), tooltips.get(group.get("id", ""), ()), strict=False):
            ET.SubElement(mark, f"{{{SVG}}}title").text = text


def _make_its_own(element: ET.Element, name: str) -> None:
    """Give it identities that no other picture has, plain links, short numbers, and colours and fonts from the page."""
    given = dict(element.attrib)
    if LINK in given:
        given["href"] = given.pop(LINK)
    if "id" in given:
        # Groups are named by matplotlib alike in every figure, and nothing refers to them.
        identity = given.pop("id")
        if element.tag != f"{{{SVG}}}g":
            given["id"] = f"{name}-{identity}"
    for key, value in given.items():
        if key == "style":
            value = FONT_FAMILY.sub("", ANY_COLOUR.sub(lambda found: VARIABLES[found[0]], value))
        elif key == "href":
            value = value.replace("#", f"#{name}-")
        elif key == "clip-path":
            value = value.replace("url(#", f"url(#{name}-")
        if key in ("d", "x", "y", "transform", "points"):
            value = LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", value)
        given[key] = value.strip()
    element.attrib.clear()
    element.attrib |= given

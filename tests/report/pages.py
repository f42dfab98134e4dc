"""A page as a parser sees it, with the parser of the standard library."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import final

__all__ = ["Seen", "seen"]

VOID = {"meta", "link", "br", "img", "hr", "input", "col", "wbr"}
CELLS = {"td", "th", "li", "dt", "dd", "p"}
OUTSIDE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
LOADED = re.compile(r"url\(\s*['\"]?([^)'\"]*)|@import\s+([^;]+)", re.IGNORECASE)


@final
class Seen(HTMLParser):
    """A parsed page: its faults, its `text` without styles, its counted `tags`, its `identities` and its `sections`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.tags: Counter[str] = Counter()
        self.identities: list[str] = []
        self.links: list[str] = []
        self.sections: dict[str, str] = {}
        self.text = ""
        self._open: list[str] = []
        self._section = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self._open.append(tag)
        self._look_at(tag, attrs)
        if tag == "section":
            self._section = dict(attrs).get("id") or ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._look_at(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else, near {self.text[-60:]!r}")
        if tag in CELLS:
            self.handle_data("\n")
        if tag == "section":
            self._section = ""

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self._check_loads(data)
            return
        data = data.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NON-BREAKING HYPHEN}", "-")
        self.text += data
        if self._section:
            self.sections[self._section] = self.sections.get(self._section, "") + data

    def close(self) -> None:
        super().close()
        self.faults += [f"<{tag}> is never closed" for tag in self._open]
        self.faults += [f"id {name!r} is there twice" for name, count in Counter(self.identities).items() if count > 1]
        known = set(self.identities)
        self.faults += [f"nothing is called {name!r}" for name in self.links if name not in known]

    def _look_at(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            text = value or ""
            if name == "id":
                self.identities.append(text)
            elif name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
                if not text.startswith("#"):
                    self.faults.append(f"<{tag} {name}={text!r}> is not in the page")
                self.links.append(text.removeprefix("#"))
            elif OUTSIDE.search(text) and name != "data-label":
                self.faults.append(f"<{tag} {name}={text!r}> names something outside")
            if name.startswith("on"):
                self.faults.append(f"<{tag} {name}> is a script")
            self._check_loads(text)

    def _check_loads(self, text: str) -> None:
        for url, imported in LOADED.findall(text):
            if imported or not url.startswith("#"):
                self.faults.append(f"{url or imported!r} is loaded")
            else:
                self.links.append(url.removeprefix("#"))


def seen(file: Path) -> Seen:
    page = Seen()
    page.feed(file.read_text(encoding="utf-8"))
    page.close()
    return page

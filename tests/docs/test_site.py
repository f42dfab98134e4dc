"""The documentation site: it builds without warnings, needs no other host, and describes every public name."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.architecture.source_tree import ROOT

pytest.importorskip("mkdocs", reason="the packages of the documentation site need Python 3.11 or newer")

LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
"""Elements of a page that a browser fetches without a click, and the attribute with the address."""

REFERENCES = {
    "autosync": "autosync/__init__.py",
    "autosync.torch": "autosync/torch.py",
    "autosync.train": "autosync/train/__init__.py",
}
"""Modules whose `__all__` is the public interface, and their files."""


class Page(HTMLParser):
    """The anchors, links and fetched files of one page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if (address := values.get(LOADS.get(tag, ""))) and values.get("rel") != "canonical":
            self.fetched.append(address)


def build(folder: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("*.html") if file.name != "404.html"}


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    sources = [file.stem for file in (ROOT / "docs").glob("*.md")]
    assert len(sources) > 10
    assert [name for name in sources if not (site / f"{name}.html").exists()] == []
    assert (site / "index.html").exists()


def test_pages_fetch_nothing_from_other_hosts(pages: dict[Path, Page], site: Path) -> None:
    fetched = {address for page in pages.values() for address in page.fetched if not address.startswith("data:")}
    assert fetched
    assert {address for address in fetched if urlsplit(address).netloc} == set()
    styles = [file.read_text(encoding="utf-8") for file in site.rglob("*.css")]
    assert styles
    assert not any("url(http" in style or "url(//" in style or "@import" in style for style in styles)


def test_every_link_between_pages_leads_to_a_file_and_an_anchor(pages: dict[Path, Page]) -> None:
    broken, checked = [], 0
    for file, page in pages.items():
        for link in [*page.links, *page.fetched]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            checked += 1
            anchor = unquote(parts.fragment)
            known = not anchor or target not in pages or anchor in pages[target].anchors or anchor == "__top"
            if not target.exists() or not known:
                broken.append(f"{file.name}: {link}")
    assert broken == []
    assert checked > 1000


def exported(file: Path) -> list[str]:
    """Return the `__all__` of a module, read from its source, so that no framework is loaded."""
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return list(ast.literal_eval(statement.value))
    raise AssertionError(f"{file} has no __all__")


@pytest.mark.parametrize("module", REFERENCES)
def test_the_reference_describes_every_public_name(module: str, pages: dict[Path, Page], site: Path) -> None:
    names = {f"{module}.{name}" for name in exported(ROOT / REFERENCES[module]) if not name.startswith("__")}
    assert names
    assert names - pages[site / "api.html"].anchors == set()


def test_the_search_finds_words_of_a_page_and_of_a_docstring(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    locations = {
        word: {entry["location"].partition("#")[0] for entry in index["docs"] if word in entry["text"]}
        for word in ("stragglers", "ZeroRedundancyOptimizer")
    }
    assert "which-discipline.html" in locations["stragglers"]
    assert "api.html" in locations["ZeroRedundancyOptimizer"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a](missing.md)", "'missing.md', but the target is not found"),
        ("[a](second.md#missing)", "does not contain an anchor '#missing'"),
    ],
)
def test_a_broken_link_fails_the_build(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# First\n\n{text} [b](second.md)\n", encoding="utf-8")
    (tmp_path / "docs" / "second.md").write_text("# Second\n", encoding="utf-8")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    validation = settings[settings.index("validation:") : settings.index("nav:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: planted\n{validation}", encoding="utf-8")
    done = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert done.returncode == 1
    assert complaint in done.stderr

"""Adds files outside `docs` to the documentation site if its pages link to them: a hook of MkDocs.

Links in the pages are those of the repository, as an editor or a forge follows them. In the site, `docs` is the top
folder, so links are rewritten.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]

STARTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Pages outside `docs` that the navigation names."""

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
"""The path in a Markdown link to a file, without its anchor."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the start pages, and every existing file that a page links to, with its links in turn."""
    waiting = [*STARTS, *(_repository_path(file.src_uri) for file in files.documentation_pages())]
    while waiting:
        path = waiting.pop()
        if files.get_file_from_path(_site_path(path)) is None:
            added = File.generated(
                config, _site_path(path), abs_src_path=str(ROOT / path), inclusion=InclusionLevel.NOT_IN_NAV
            )
            files.append(added)
        waiting += [link for link in _linked(path) if files.get_file_from_path(_site_path(link)) is None]
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Return the text of a page with links for the site."""
    path = _repository_path(page.file.src_uri)

    def for_site(link: re.Match[str]) -> str:
        target = _site_path(posixpath.normpath(posixpath.join(posixpath.dirname(path), link[0])))
        return posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")

    return LINK.sub(for_site, markdown)


def _linked(path: str) -> Iterator[str]:
    """The existing files of the repository that the page at `path` links to."""
    if path.endswith(".md"):
        for link in LINK.findall((ROOT / path).read_text(encoding="utf-8")):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
            if not target.startswith("..") and (ROOT / target).is_file():
                yield target


def _site_path(path: str) -> str:
    """The path in the site of the file at `path` of the repository."""
    return path.removeprefix("docs/")


def _repository_path(site_path: str) -> str:
    return f"docs/{site_path}" if (ROOT / "docs" / site_path).exists() else site_path

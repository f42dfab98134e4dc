"""One word an idea: what CONTRIBUTING.md's glossary says a thing is not called stands nowhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source_tree import PACKAGES, ROOT, modules

EXCEPTIONS = {
    ("autosync/search/guided/searcher.py", "foretold"): "a key of a searcher's state, which older runs have on disk",
}
"""Where a word that is banned must stand, and why."""

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def glossary() -> dict[str, list[str]]:
    """Each word of the table with those that are not to be used for it."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## Words\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    return {word: [each.strip() for each in banned.split(",") if each.strip()] for word, _, banned in rows[2:]}


def faults(lines: Iterator[tuple[int, str]], banned: dict[str, str], place: str) -> Iterator[str]:
    """A sentence on each banned word, which may be part of a name."""
    gaps = {" ": "[ _-]?", "-": "[ _-]"}
    patterns = {each: re.compile(re.sub("[ -]", lambda gap: gaps[gap[0]], each), re.IGNORECASE) for each in banned}
    for number, line in lines:
        for each, pattern in patterns.items():
            if pattern.search(line) and (place, each) not in EXCEPTIONS:
                yield f"{place}:{number} says {each!r}; the word is {banned[each]!r}"


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """The lines of all docstrings, with their numbers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            text = node.body[0].value  # type: ignore[attr-defined]
            yield from enumerate(text.value.splitlines(), text.lineno)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a page but for blocks that are set off: these quote what was printed."""
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if not line.startswith("    "))


def texts() -> Iterator[tuple[str, Iterator[tuple[int, str]]]]:
    """Every file that is read, with its numbered lines."""
    pages = [Path("README.md"), Path("ARCHITECTURE.md"), *(each.relative_to(ROOT) for each in ROOT.glob("docs/*.md"))]
    for file in [*pages, *modules(*PACKAGES, "tests")]:
        text = (ROOT / file).read_text(encoding="utf-8")
        lines = prose(text) if file in pages else docstrings(text) if file.parts[0] == "tests" else None
        yield str(file), lines or iter(enumerate(text.splitlines(), 1))


def test_every_idea_has_one_word() -> None:
    banned = {each: word for word, others in glossary().items() for each in others}
    assert {"hand-written", "foretold", "reversion"} <= set(banned)
    assert not set(banned) & set(glossary()), "a word is banned that the glossary explains"
    assert [each for place, lines in texts() for each in faults(lines, banned, place)] == []


def test_a_planted_word_is_found() -> None:
    banned = {"foretold": "predict", "cost model": "simulator", "hand-written": "baseline"}
    for line in (
        "_foretold = 1",
        "class Foretold:",
        "# as foretold",
        "CostModel()",
        "hand_written",
        'f"the cost model of {name}"',
    ):
        assert len(list(faults(iter([(7, line)]), banned, "a.py"))) == 1, line
    (said,) = faults(docstrings('"""A page.\n\nIt was foretold."""\nforetold = 1'), banned, "tests/a.py")
    assert said == "tests/a.py:3 says 'foretold'; the word is 'predict'"
    assert list(faults(prose("one\n\n    as foretold\n"), banned, "README.md")) == []

"""One word an idea: words that CONTRIBUTING.md's glossary forbids appear nowhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source_tree import PACKAGES, ROOT, modules

EXCEPTIONS = {
    ("autosync/search/guided/searcher.py", "foretold"): "a key of a searcher's state, which older runs have on disk",
}
"""Allowed places of forbidden words, with the reason."""

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def glossary() -> dict[str, list[str]]:
    """Return each word of the table with its forbidden synonyms."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## Words\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    return {word: [part.strip() for part in banned.split(",") if part.strip()] for word, _, banned in rows[2:]}


def faults(lines: Iterator[tuple[int, str]], banned: dict[str, str], place: str) -> Iterator[str]:
    """Yield a sentence for each forbidden word, which may be part of a name."""
    gaps = {" ": "[ _-]?", "-": "[ _-]"}
    patterns = {word: re.compile(re.sub("[ -]", lambda gap: gaps[gap[0]], word), re.IGNORECASE) for word in banned}
    for number, line in lines:
        for word, pattern in patterns.items():
            if pattern.search(line) and (place, word) not in EXCEPTIONS:
                yield f"{place}:{number} says {word!r}; the word is {banned[word]!r}"


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of all docstrings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            text = node.body[0].value  # type: ignore[attr-defined]
            yield from enumerate(text.value.splitlines(), text.lineno)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a page without indented blocks, which quote printed output."""
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if not line.startswith("    "))


def texts() -> Iterator[tuple[str, Iterator[tuple[int, str]]]]:
    """Yield every file to check, with its numbered lines."""
    pages = [Path("README.md"), Path("ARCHITECTURE.md"), *(path.relative_to(ROOT) for path in ROOT.glob("docs/*.md"))]
    for file in [*pages, *modules(*PACKAGES, "studies", "tests")]:
        text = (ROOT / file).read_text(encoding="utf-8")
        lines = prose(text) if file in pages else docstrings(text) if file.parts[0] == "tests" else None
        yield str(file), lines or iter(enumerate(text.splitlines(), 1))


def test_every_idea_has_one_word() -> None:
    banned = {synonym: word for word, synonyms in glossary().items() for synonym in synonyms}
    assert {"hand-written", "foretold", "reversion"} <= set(banned)
    assert not set(banned) & set(glossary()), "a word is banned that the glossary explains"
    assert [fault for place, lines in texts() for fault in faults(lines, banned, place)] == []


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

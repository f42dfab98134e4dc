"""A ratchet over the English of docstrings, comments and Markdown, and over three kinds of names.

Each package has limits in `prose.json`, and the limits only fall. `python -m tests.architecture.test_prose` lowers them
to the present counts, and refuses to raise one. A hit is a pattern, not a verdict: CONTRIBUTING.md has the rules.
"""

from __future__ import annotations

import ast
import io
import json
import math
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.architecture.source_tree import PACKAGES, ROOT, modules, parsed

NOTED = Path(__file__).with_name("prose.json")

CODE = (*PACKAGES, "studies", "examples", "tests")
PAGES = ("docs", *CODE)
"""Folders with Markdown, in addition to the root of the project."""

GOLDEN = ("tests", "golden")
"""Files that must not change, and are therefore not read."""

WHAT = re.compile(
    r"\b(?:what|whatever) (?:is|are|was|were|it|they|a|an|the|has|have|had|comes?|goes|takes?|there|each|can|must|to|"
    r"one|you|those|this|that|no|any|all|most|others?|[a-z]+(?:ed|s))\b",
    re.IGNORECASE,
)
STARTS = re.compile(r"(?:^|(?<=[.:!?] )|(?<=\n))(?:What|Who|Whoever|Whose|Whom|Of (?!course))\b")
IDIOMS = re.compile(
    r"\b(?:hangs? on|held against|holds? against|in place of|for want of|comes? to(?= \d| the| what| so)|at work|"
    r"but for|be it|anew|for nothing|so many|so much|so-manieth|is to be|are to be|was to be|whoever|nobody|whatever|"
    r"of which|as of now|is there|are there already|beside(?! the point))\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")
SET_OFF = re.compile(r"^(?:```.*?^```|(?:    |\t).*?$)", re.MULTILINE | re.DOTALL)
"""Code blocks of Markdown: they quote commands and output."""

PRONOUNS = ("each", "one", "other", "own", "its")
PARTICIPLE = re.compile(r"(?!need)_*[a-z]+(?:ed|en|wn|ne)(?:_|$)")

REMEDIES = {
    "what-clauses": 'name the noun: "the payload", not "what is sent"',
    "starts with What, Who, Of": "begin with the actor, and put the condition last",
    "idioms": "use the plain word, such as depends on, instead of, except, every K-th, next to",
    "loops over pronouns": "name the content, such as record, gradient or replica",
    "participles": "use a verb for a function that acts, and a noun for a function that returns something",
}
"""The habits that are counted, each with its remedy."""


class Hit(NamedTuple):
    """A place with a habit."""

    habit: str
    file: str
    line: int
    sentence: str


class Count(NamedTuple):
    """The hits of a habit in a package, and the number of words, loops or functions there."""

    hits: tuple[Hit, ...]
    base: int

    def per_1000(self) -> float:
        """Rounded up, so that the noted limit admits the package that it was noted from."""
        return math.ceil(1e5 * len(self.hits) / max(self.base, 1)) / 100


Limits = Mapping[str, Mapping[str, tuple[int, float]]]
"""By package and habit: the most hits, and the most hits per 1,000. A package must keep one of the two limits, because
more prose may have more hits, and less prose may have a higher rate. A missing entry allows no hit."""


def package_of(file: Path) -> str:
    """The folder of `file`, at most two levels deep."""
    return "/".join(file.parts[:-1][:2]) or "."


def prose_in(source: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """All docstrings, including those below assignments, and all comments, each with its first line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def pages() -> Iterator[Path]:
    yield from sorted(page.relative_to(ROOT) for page in ROOT.glob("*.md"))
    for folder in PAGES:
        yield from sorted(page.relative_to(ROOT) for page in (ROOT / folder).rglob("*.md"))


def python_files() -> Iterator[Path]:
    return (file for file in modules(*CODE) if file.parts[:2] != GOLDEN)


def sentence_at(text: str, place: int) -> str:
    """The sentence of `text` that contains the character at `place`, in one line."""
    begin = max((match.end() for match in re.finditer(r"[.:!?]\s|\n\s*\n", text[:place])), default=0)
    end = re.search(r"[.!?](?:\s|$)|\n\s*\n", text[place:])
    return " ".join(text[begin : place + end.end() if end else len(text)].split())[:160]


def hits_in(text: str, file: Path, line: int) -> Iterator[Hit]:
    """The hits of the three patterns in a text that begins in `line` of `file`."""
    patterns = dict(zip(REMEDIES, (WHAT, STARTS, IDIOMS), strict=False))
    for habit, pattern in patterns.items():
        for match in pattern.finditer(text):
            yield Hit(habit, str(file), line + text.count("\n", 0, match.start()), sentence_at(text, match.start()))


def names_in(tree: ast.Module, file: Path) -> tuple[list[Hit], int, int]:
    """The hits of the two habits of naming, the number of loops and the number of functions."""
    hits, loops, functions = [], 0, 0
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            loops += 1
            if isinstance(node.target, ast.Name) and node.target.id in PRONOUNS:
                sentence = f"for {node.target.id} in {ast.unparse(node.iter)}"[:160]
                hits.append(Hit("loops over pronouns", str(file), node.target.lineno, sentence))
        elif isinstance(node, ast.FunctionDef):
            functions += 1
            if PARTICIPLE.match(node.name):
                hits.append(Hit("participles", str(file), node.lineno, f"def {node.name}"))
    return hits, loops, functions


def counts() -> dict[str, dict[str, Count]]:
    """The counts of each package and habit."""
    hits: dict[str, list[Hit]] = defaultdict(list)
    bases: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])  # words, loops, functions

    def add(package: str, text: str, file: Path, line: int) -> None:
        bases[package][0] += len(WORD.findall(text))
        hits[package].extend(hits_in(text, file, line))

    for file in python_files():
        package, tree = package_of(file), parsed(file)
        for line, text in prose_in((ROOT / file).read_text(encoding="utf-8"), tree):
            add(package, text, file, line)
        if file.parts[0] != "tests":
            of_names, loops, functions = names_in(tree, file)
            hits[package] += of_names
            bases[package][1] += loops
            bases[package][2] += functions
    for page in pages():
        # Blank lines replace code blocks, to keep the numbers of lines.
        text = SET_OFF.sub(lambda block: "\n" * block[0].count("\n"), (ROOT / page).read_text(encoding="utf-8"))
        add(package_of(page), text, page, 1)
    return {
        package: {
            habit: Count(tuple(hit for hit in hits[package] if hit.habit == habit), bases[package][max(place - 2, 0)])
            for place, habit in enumerate(REMEDIES)
        }
        for package in sorted(bases)
    }


def ambiguous_classes() -> list[str]:
    """Public class names that several files outside the tests define."""
    files: dict[str, set[Path]] = defaultdict(set)
    for file in python_files():
        if file.parts[0] != "tests":
            for node in ast.walk(parsed(file)):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    files[node.name].add(file)
    return sorted(name for name, places in files.items() if len(places) > 1)


def faults(present: Mapping[str, Mapping[str, Count]], limits: Limits) -> list[str]:
    """A message for each habit above its limit: the count, the remedy, and the places with their sentences."""
    return [
        f"The count of {habit!r} in {package} is {len(count.hits)} ({count.per_1000()} per 1,000), above its limit of "
        f"{most} ({rate} per 1,000). Rewrite one of these places; {REMEDIES[habit]}: {places_of(count.hits)}."
        for package, habits in present.items()
        for habit, count in habits.items()
        for most, rate in [limits.get(package, {}).get(habit, (0, 0.0))]
        if len(count.hits) > most and count.per_1000() > rate
    ]


def places_of(hits: Iterable[Hit]) -> str:
    return "; ".join(f"{hit.file}:{hit.line} {hit.sentence!r}" for hit in hits)


def lowered(present: Mapping[str, Mapping[str, Count]], limits: Limits) -> dict[str, dict[str, tuple[int, float]]]:
    """The limits of `present`, where each is at most the limit in `limits`. Habits without a hit have no entry."""
    lower = {
        package: {
            habit: (min(len(count.hits), most), min(count.per_1000(), rate))
            for habit, count in habits.items()
            for most, rate in [limits.get(package, {}).get(habit, (len(count.hits), count.per_1000()))]
            if count.hits
        }
        for package, habits in present.items()
    }
    return {package: habits for package, habits in lower.items() if habits}


def noted() -> tuple[Limits, list[str]]:
    """The limits and the ambiguous names in `prose.json`."""
    document = json.loads(NOTED.read_text(encoding="utf-8"))
    limits = {
        package: {habit: (most, rate) for habit, (most, rate) in habits.items()}
        for package, habits in document["limits"].items()
    }
    return limits, document["classes with two definitions"]


def note() -> None:
    """Lower the limits in `prose.json` to the present counts. If one would rise, exit with a message instead."""
    present, classes = counts(), ambiguous_classes()
    limits: Limits = {}
    if NOTED.exists():
        limits, known = noted()
        refused = faults(present, limits) + [
            f"Class {name} has a second definition." for name in classes if name not in known
        ]
        if refused:
            raise SystemExit("\n".join(["Limits only fall. Rewrite first:", *refused]))
    # One line for each package keeps differences readable.
    lines = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(habits)}" for name, habits in lowered(present, limits).items()
    )
    names = json.dumps(classes)
    NOTED.write_text(
        f'{{\n "limits": {{\n{lines}\n }},\n "classes with two definitions": {names}\n}}\n', encoding="utf-8"
    )


def test_prose_and_names_keep_their_limits() -> None:
    limits, _ = noted()
    messages = faults(counts(), limits)
    assert not messages, "\n".join(messages)


def test_a_public_class_name_has_one_definition() -> None:
    _, known = noted()
    assert [
        f"Class {name} has a second definition; use a precise name" for name in ambiguous_classes() if name not in known
    ] == []


def test_planted_habits_are_found() -> None:
    text = "Sends what is due.\n\nOf two links one is slow. It hangs on the rate,\nbut for racks."
    assert [(hit.habit, hit.line, hit.sentence) for hit in hits_in(text, Path("a.py"), 5)] == [
        ("what-clauses", 5, "Sends what is due."),
        ("starts with What, Who, Of", 7, "Of two links one is slow."),
        ("idioms", 7, "It hangs on the rate, but for racks."),
        ("idioms", 8, "It hangs on the rate, but for racks."),
    ]
    tree = ast.parse("def opened():\n    return [own for own in b]\ndef needed():\n    for record in b: pass\n")
    hits, loops, functions = names_in(tree, Path("a.py"))
    assert [(hit.habit, hit.line, hit.sentence) for hit in hits] == [
        ("participles", 1, "def opened"),
        ("loops over pronouns", 2, "for own in b"),
    ]
    assert (loops, functions) == (2, 2)


def planted(hits: int, words: int) -> dict[str, dict[str, Count]]:
    hit = Hit("idioms", "a/b.py", 3, "It hangs on the rate.")
    return {"a": {"idioms": Count((hit,) * hits, words)}}


def test_a_fault_names_the_place_the_rule_and_the_remedy() -> None:
    (message,) = faults(planted(1, 500), {})
    assert message == (
        "The count of 'idioms' in a is 1 (2.0 per 1,000), above its limit of 0 (0.0 per 1,000). Rewrite one of these "
        "places; use the plain word, such as depends on, instead of, except, every K-th, next to: "
        "a/b.py:3 'It hangs on the rate.'."
    )


def test_limits_admit_more_prose_and_less_prose_and_only_fall() -> None:
    limits = lowered(planted(2, 1000), {})
    assert limits == {"a": {"idioms": (2, 2.0)}}
    assert faults(planted(4, 2000), limits) == [] == faults(planted(2, 500), limits)
    assert len(faults(planted(3, 1000), limits)) == 1
    assert lowered(planted(4, 2000), limits) == limits == lowered(planted(2, 500), limits)
    assert lowered(planted(1, 1000), limits) == {"a": {"idioms": (1, 1.0)}}
    assert lowered(planted(0, 1000), limits) == {}


def test_the_ratchet_reads_code_and_pages() -> None:
    assert {Path("README.md"), Path("docs/search.md"), Path("studies/README.md")} <= set(pages())
    assert {Path("autosync/errors.py"), Path("tests/architecture/test_prose.py")} <= set(python_files())
    assert package_of(Path("README.md")) == "."
    assert package_of(Path("autosync/engine/core/pacing.py")) == "autosync/engine"


if __name__ == "__main__":
    note()

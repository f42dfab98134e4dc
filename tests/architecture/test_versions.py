"""Whoever changes what makes results is reminded of its version, which is in the keys of results that are kept."""

from __future__ import annotations

import hashlib
import io
import json
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from autosync.engine.version import ENGINE
from autosync.studies.bench import versions
from autosync.studies.evaluation import BUILDERS

ROOT = Path(__file__).parents[2]
NOTED = Path(__file__).with_name("versions.json")

MADE_BY = {
    "simulators": ("autosync/layout", "autosync/stats", "autosync/cost", "autosync/simulator"),
    "searchers": (
        "autosync/search",
        "autosync/space",
        "autosync/baselines",
        "autosync/tune/recorded",
    ),
    "engine": ("autosync/engine", "trials/trial.py"),
}
"""What has versions, and which source it follows from."""

TO_RAISE = {
    "simulators": "`version` of the Builders in autosync/studies/evaluation/simulators.py, TAUGHT and SEARCHERS",
    "searchers": "SEARCHERS or REPLAY in autosync/studies/bench/versions.py",
    "engine": "ENGINE in autosync/engine/version.py",
}

NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


def code_in(source: str) -> str:
    """`source` without comments, texts that stand alone (docstrings), spaces and layout, on every version of Python."""
    found, begins = [], True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE and not (begins and token.type == tokenize.STRING):
            found.append(token.string)
        if token.type != tokenize.COMMENT:
            begins = token.type in NO_CODE
    # From Python 3.12 on a text with braces is several tokens, in which double ones are single.
    return "".join("".join(found).split()).replace("{{", "{").replace("}}", "}")


def files_of(kind: str) -> Iterator[Path]:
    for place in MADE_BY[kind]:
        found = sorted((ROOT / place).rglob("*.py")) if (ROOT / place).is_dir() else sorted(ROOT.glob(place))
        assert found, f"{place} is gone; say in MADE_BY where it is now"
        yield from found


def present() -> dict[str, dict[str, object]]:
    """The versions of each kind, and a digest of the code that they are of, wherever that lies."""
    stated = {
        "simulators": {name: builder.version for name, builder in BUILDERS.items()} | {"taught": versions.TAUGHT},
        "searchers": dict(versions.SEARCHERS) | {"replay": versions.REPLAY, "facts": versions.FACTS},
        "engine": {"engine": ENGINE},
    }
    return {
        kind: {"versions": stated[kind], "code": hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest()[:16]}
        for kind in MADE_BY
        for texts in [[code_in(file.read_text(encoding="utf-8")) for file in files_of(kind)]]
    }


def test_comments_texts_and_layout_are_no_code() -> None:
    written = '"""A module."""\n\nX = "text"  # why\n\n\ndef f() -> str:\n    """What."""\n    return X\n'
    assert code_in(written) == code_in('X = "text"\ndef f() -> str:\n  # more\n  return X\n')
    assert code_in(written) == 'X="text"deff()->str:returnX'
    assert code_in(written) != code_in(written.replace('"text"', '"texts"'))


@pytest.mark.parametrize("kind", MADE_BY)
def test_versions_were_thought_of_when_the_code_was_last_changed(kind: str) -> None:
    assert present()[kind] == json.loads(NOTED.read_text(encoding="utf-8"))[kind], (
        f"The code of {kind} has changed. If it may give other results than before, raise {TO_RAISE[kind]}: results "
        f"that are kept then count as older. In any case note it: python -m tests.architecture.test_versions"
    )


if __name__ == "__main__":
    NOTED.write_text(json.dumps(present(), indent=1) + "\n", encoding="utf-8")

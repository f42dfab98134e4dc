"""A change to code that makes results needs a new version, because the version is in the keys of stored results."""

from __future__ import annotations

import hashlib
import io
import json
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from autosync.engine.core.versions import VERSIONS
from studies.bench import versions
from studies.evaluation import BUILDERS

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
"""The sources that each version covers."""

TO_RAISE = {
    "simulators": "`version` of the Builders in studies/evaluation/simulators.py, TAUGHT and SEARCHERS",
    "searchers": "SEARCHERS or REPLAY in studies/bench/versions.py",
    "engine": "the engine's version in autosync/engine/core/versions.py",
}

NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


def code_in(source: str) -> str:
    """Return `source` without comments, docstrings, spaces and layout, equal on every version of Python."""
    tokens, begins = [], True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE and not (begins and token.type == tokenize.STRING):
            tokens.append(token.string)
        if token.type != tokenize.COMMENT:
            begins = token.type in NO_CODE
    # From Python 3.12 on, an f-string is several tokens, in which doubled braces are single.
    return "".join("".join(tokens).split()).replace("{{", "{").replace("}}", "}")


def files_of(kind: str) -> Iterator[Path]:
    for place in MADE_BY[kind]:
        files = sorted((ROOT / place).rglob("*.py")) if (ROOT / place).is_dir() else sorted(ROOT.glob(place))
        assert files, f"{place} is gone; say in MADE_BY where it is now"
        yield from files


def present() -> dict[str, dict[str, object]]:
    """Return the current versions of each kind, with a digest of their code that does not depend on file names."""
    stated = {
        "simulators": {name: builder.version for name, builder in BUILDERS.items()} | {"taught": versions.TAUGHT},
        "searchers": dict(versions.SEARCHERS) | {"replay": versions.REPLAY, "facts": versions.FACTS},
        "engine": dict(VERSIONS),
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

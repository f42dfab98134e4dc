"""Versions of what makes results: they are in the results' keys, so that those of older code do not count as done.

Raise one by one whenever what it makes may be another than before. A digest of the source, which rows hold too, would
change with every comment.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import autosync
from autosync.engine.version import ENGINE

REPLAY = 1
"""Version of recorded trials as a searcher meets them: cells, pools, their clock, drawn noise."""

FACTS = "1"
"""Version of a cell's own figures."""

TAUGHT = 3
"""Version of the simulators that other cells teach before a search, which are kept too."""

SEARCHERS: Mapping[str, int] = {"guided": 4, "original": 3}
"""Versions other than 1, by searcher. A searcher is what proposes and all it asks: spaces, baselines, simulators."""

Row = Mapping[str, Any]


def source_digest(root: Path = Path(autosync.__file__).parent) -> str:
    """The digest of the names and contents of all source files below `root`, autosync's own."""
    found = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        found.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def of_replay(searcher: str) -> str:
    return f"replay {REPLAY}, searcher {_version(searcher)}"


def of_live(searcher: str) -> str:
    return f"engine {ENGINE}, searcher {_version(searcher)}"


def _version(searcher: str) -> int:
    """The searcher's own version, or that of the one whose name its own begins with, as `guided-no-transfer` does."""
    return SEARCHERS.get(searcher, SEARCHERS.get(searcher.partition("-")[0], 1))


def latest(rows: Sequence[dict[str, Any]], version_of: Callable[[str], str]) -> list[dict[str, Any]]:
    """The rows of one version of each searcher: its present one by `version_of`, else the one with most rows."""
    counts: dict[str, Counter[str | None]] = {}
    for row in rows:
        counts.setdefault(row["searcher"], Counter())[row["version"]] += 1
    shown = {
        name: version_of(name) if version_of(name) in found else max(found, key=lambda each: (found[each], each or ""))
        for name, found in counts.items()
    }
    return [row for row in rows if row["version"] == shown[row["searcher"]]]


def versions_in_words(rows: Sequence[Row], version_of: Callable[[str], str]) -> str:
    """Words for the version that the `rows` of each searcher are of, and whether it has another by now."""
    names: dict[tuple[str | None, bool], dict[str, None]] = {}
    for row in rows:
        outdated = row["version"] != version_of(row["searcher"])
        names.setdefault((row["version"], outdated), {})[row["searcher"]] = None
    return "; ".join(
        f"{version or 'of before there were versions'}{' (there is a later one)' if outdated else ''}: {', '.join(own)}"
        for (version, outdated), own in names.items()
    )

"""Versions of the code that makes results. The results' keys contain them, so results of older code do not count as
done.

Raise a version by one whenever its code may make other results than before. A digest of the source, which rows contain
too, would change with every comment.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import autosync
from autosync.engine.core.versions import ENGINE

REPLAY = 1
"""Version of recorded trials as a searcher sees them: cells, pools, their clock, drawn noise."""

FACTS = "1"
"""Version of the figures of a cell."""

TAUGHT = 3
"""Version of the simulators that are pretrained on other cells before a search, and kept."""

SEARCHERS: Mapping[str, int] = {"guided": 4, "original": 3}
"""Versions other than 1, by searcher. A searcher includes everything it uses: spaces, baselines and simulators."""

Row = Mapping[str, Any]


def source_digest(root: Path = Path(autosync.__file__).parent) -> str:
    """Return the digest of the names and contents of all source files below `root`, by default autosync's."""
    content = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        content.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return content.hexdigest()[:12]


def of_replay(searcher: str) -> str:
    """Return the version of a searcher's replayed results."""
    return f"replay {REPLAY}, searcher {_version(searcher)}"


def of_live(searcher: str) -> str:
    """Return the version of a searcher's live results."""
    return f"engine {ENGINE}, searcher {_version(searcher)}"


def _version(searcher: str) -> int:
    """Return the searcher's version, or that of its base searcher, such as `guided` for `guided-no-transfer`."""
    return SEARCHERS.get(searcher, SEARCHERS.get(searcher.partition("-")[0], 1))


def latest(rows: Sequence[dict[str, Any]], version_of: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return the rows of one version per searcher: the present version by `version_of`, else the one with most rows."""
    counts: dict[str, Counter[str | None]] = {}
    for row in rows:
        counts.setdefault(row["searcher"], Counter())[row["version"]] += 1
    shown = {
        name: version_of(name)
        if version_of(name) in versions
        else max(versions, key=lambda version: (versions[version], version or ""))
        for name, versions in counts.items()
    }
    return [row for row in rows if row["version"] == shown[row["searcher"]]]


def versions_in_words(rows: Sequence[Row], version_of: Callable[[str], str]) -> str:
    """Describe the version of each searcher's `rows`, and whether the searcher has a later version."""
    names: dict[tuple[str | None, bool], dict[str, None]] = {}
    for row in rows:
        outdated = row["version"] != version_of(row["searcher"])
        names.setdefault((row["version"], outdated), {})[row["searcher"]] = None
    return "; ".join(
        f"{version or 'older than all versions'}{' (there is a later one)' if outdated else ''}: {', '.join(searchers)}"
        for (version, outdated), searchers in names.items()
    )

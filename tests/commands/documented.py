"""The fields and statuses that docs/command-line.md lists for programs."""

from __future__ import annotations

import re

from tests.architecture.source_tree import ROOT

__all__ = ["names_in_row", "page", "statuses"]


def page() -> str:
    return (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")


def names_in_row(heading: str, kind: str) -> set[str]:
    """The names in the row for `kind` of the table under `heading`."""
    section = page().partition(f"{heading}\n")[2].partition("\n#")[0]
    (row,) = [line for line in section.splitlines() if line.startswith(f"| `{kind}` |")]
    return set(re.findall(r"`([a-z_0-9]+)`", row.split("|", 2)[2]))


def statuses() -> set[int]:
    """The exit statuses in the page's table."""
    section = page().partition("## Exit statuses\n")[2]
    return {int(number) for number in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}

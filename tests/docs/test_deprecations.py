"""The page on deprecations states the effect of older names, and the new names exist."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

import autosync.space
import studies.commands
from autosync.commands import COMMANDS, STUDIES, main
from tests.architecture.source_tree import ROOT

ROWS = re.findall(
    r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$",
    (ROOT / "docs" / "deprecations.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
"""The older command, the new one, and the effect of the older one."""


def rows(older: str) -> list[tuple[str, str, str]]:
    """Return the rows whose older command matches, as far as its first group."""
    return [(match[1], new, effect) for old, new, effect in ROWS if (match := re.match(older, old))]


def test_every_new_command_exists() -> None:
    assert len(ROWS) > 10
    for _, new, _ in ROWS:
        program, _, words = new.rpartition(" studies ") if " studies " in new else ("", "", new.partition(" ")[2])
        assert words.split()[0] in (studies.commands.COMMANDS if program else COMMANDS), new


def test_the_studies_are_refused_with_the_new_name(capsys: pytest.CaptureFixture[str]) -> None:
    moved = {name: (new, effect) for name, new, effect in rows(r"autosync (\w+)$")}
    assert set(moved) == set(STUDIES)
    for name, (new, effect) in moved.items():
        assert main([name]) == 2
        assert f"`{new}`" in capsys.readouterr().err
        assert effect == "is refused with the new name, status 2"


def test_flags_that_became_commands_run_them_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong option ends the new command at once, after the note."""
    moved = rows(r"autosync tune (--.+)$")
    assert len(moved) == 2
    for flags, new, effect in moved:
        name = new.split()[1]
        assert main(["tune", *flags.split(), "--nonsense"]) == 2
        note, refusal = capsys.readouterr().err.splitlines()
        assert f"is now the command `autosync {name}`" in note
        assert refusal.startswith(f"{name}: No such option")
        assert effect == "runs the new one, with a note"


@pytest.mark.parametrize(("module", "effect"), [(module, effect) for module, _, effect in rows(r"python -m ([\w.]+)$")])
def test_modules_that_were_programs_run_no_more(module: str, effect: str) -> None:
    parent = module.rpartition(".")[0]
    is_there = (not parent or find_spec(parent)) and find_spec(module)
    assert not is_there or find_spec(f"{module}.__main__") is None
    assert effect == "is gone"


def test_the_names_of_spaces_are_the_new_ones() -> None:
    for new, older in (("MenuEntry", "Entry"), ("VariableFilter", "Where"), ("OfferedDiscipline", "Offer")):
        assert hasattr(autosync.space, new)
        assert not hasattr(autosync.space, older)

"""Search spaces by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autosync.errors import SpaceError
from autosync.space import Circumstances, Menu
from autosync.spec import Discipline, Probed, Rhythm
from search_spaces import load_menu, load_space, menu_names, space_names


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty module in the current directory, which is not yet on the search path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path / f"own_space_{tmp_path.name.replace('-', '_')}.py"


def test_every_space_that_comes_with_autosync_is_loaded_under_its_own_name() -> None:
    assert space_names() == ["bert", "cnn", "ddp", "ddp_lossy", "default", "lossy", "ncf", "tiny"]
    assert [load_space(name).name for name in space_names()] == space_names()


def test_an_own_space_is_loaded_from_the_current_directory(own_module: Path) -> None:
    own_module.write_text(
        "from autosync.space import EVERYTHING, Rule, Space\n"
        "MINE = Space(name='mine', description='all-reduce', rules=(Rule(where=EVERYTHING, all_reduce=True),))\n"
    )
    assert load_space(f"{own_module.stem}:MINE").name == "mine"


def test_an_unknown_space_is_refused_with_the_known_ones_and_how_to_name_an_own_one() -> None:
    with pytest.raises(SpaceError) as refusal:
        load_space("nosuch")
    assert str(refusal.value) == (
        "No search space is called 'nosuch'. Known: bert, cnn, ddp, ddp_lossy, default, lossy, ncf, tiny; "
        "your own is named as package.module:SPACE."
    )


def test_a_space_whose_module_is_missing_broken_or_holds_something_else_is_refused_with_the_reason(
    own_module: Path,
) -> None:
    with pytest.raises(SpaceError, match=r"'nosuch:SPACE' cannot be loaded: No module named 'nosuch'\."):
        load_space("nosuch:SPACE")
    with pytest.raises(SpaceError, match=r"':SPACE' cannot be loaded: Empty module name\."):
        load_space(":SPACE")
    own_module.write_text("SPACE = 5\n")
    with pytest.raises(SpaceError, match=r"_.*:SPACE' must be a Space, not int\."):
        load_space(f"{own_module.stem}:SPACE")
    with pytest.raises(SpaceError, match=r"cannot be loaded: module .* has no attribute 'OTHER'\."):
        load_space(f"{own_module.stem}:OTHER")


def test_a_space_file_that_raises_is_refused_with_its_message(own_module: Path) -> None:
    own_module.write_text("raise ValueError('no rules today')\n")
    with pytest.raises(SpaceError, match=r"cannot be loaded: no rules today\."):
        load_space(f"{own_module.stem}:SPACE")
    own_module.write_text("SPACE = Space(\n")
    with pytest.raises(SpaceError, match=r"cannot be loaded: '\(' was never closed"):
        load_space(f"{own_module.stem}:SPACE")


def test_every_menu_that_comes_with_autosync_is_loaded_under_its_own_name_and_systems_are_all() -> None:
    assert menu_names() == ["cut_offs", "fidelities", "loads", "rhythms", "systems"]
    assert [load_menu(name).name for name in menu_names()] == menu_names()
    around = Circumstances(4, Probed(1e-4, 0.1), (8.0, 4.0, 4.0, 2.0))
    offered = {name: [offer.name for offer in load_menu(name).of(around)] for name in menu_names()}
    assert sorted(offered.pop("systems")) == sorted(name for names in offered.values() for name in names)
    assert {"scadles", "1 worker fewer", "2 workers fewer", "0.5 x batch"} <= set(offered["loads"])
    two = {offer.name for offer in load_menu("systems").of(Circumstances(2, Probed(0.0, 0.0)))}
    assert not {"backup worker", "scadles", "2 workers fewer"} & two


def test_an_own_menu_is_loaded_and_what_is_none_is_refused(own_module: Path) -> None:
    own_module.write_text(
        "from autosync.space import Discipline, Menu, MenuEntry, Rhythm\n"
        "MENU = Menu('mine', 'seldom', (MenuEntry('own', 'me', lambda around: Discipline(Rhythm(around.replicas))),))\n"
    )
    menu = load_menu(f"{own_module.stem}:MENU")
    assert [offer.discipline for offer in menu.of(Circumstances(3, Probed(0.0, 0.0)))] == [Discipline(Rhythm(3))]
    with pytest.raises(SpaceError, match=r"Menu 'twice' offers 'own' twice; give each entry its own name\."):
        Menu("twice", "two", menu.entries * 2)
    with pytest.raises(SpaceError, match=r"No menu is called 'nosuch'\. Known: cut_offs, .*; your own is named as "):
        load_menu("nosuch")
    with pytest.raises(SpaceError, match=r"'search_spaces\.tiny:SPACE' must be a Menu, not Space\."):
        load_menu("search_spaces.tiny:SPACE")
    with pytest.raises(SpaceError, match=r"The menu 'nosuch:MENU' cannot be loaded: No module named 'nosuch'\."):
        load_menu("nosuch:MENU")

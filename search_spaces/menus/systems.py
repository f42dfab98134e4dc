"""The menu of all systems of the literature."""

from autosync.space import Menu
from search_spaces.menus import cut_offs, fidelities, loads, rhythms

MENU = Menu(
    name="systems",
    description="all systems of the literature, with their authors' settings where these carry over",
    entries=(
        *cut_offs.MENU.entries,
        *rhythms.MENU.entries,
        *fidelities.MENU.entries,
        *loads.MENU.entries,
    ),
)

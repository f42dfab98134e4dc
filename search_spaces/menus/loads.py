"""The menu of loads: which replicas compute, and how many of a step's examples."""

from functools import partial

from autosync.space import Menu, MenuEntry, equal_loads, loads_of_streams

MENU = Menu(
    name="loads",
    description="how much each replica computes: dynamic batching, ScaDLES, and Scavenger's workers and batch",
    entries=(
        MenuEntry("dynamic batching", "Tyagi and Sharma 2020, dead band 0.05", partial(equal_loads, 0.05, 1.0)),
        MenuEntry("scadles", "Tyagi and Swany 2022, examples as they come", loads_of_streams),
        MenuEntry("1 worker fewer", "Tyagi and Sharma 2023, K of Scavenger", leaves=1),
        MenuEntry("2 workers fewer", "Tyagi and Sharma 2023, K of Scavenger", leaves=2),
        MenuEntry("0.5 x batch", "Tyagi and Sharma 2023, B of Scavenger", partial(equal_loads, None, 0.5)),
        MenuEntry("2 x batch", "Tyagi and Sharma 2023, B of Scavenger", partial(equal_loads, None, 2.0)),
        MenuEntry("4 x batch", "Tyagi and Sharma 2023, B of Scavenger", partial(equal_loads, None, 4.0)),
    ),
)

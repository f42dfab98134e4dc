"""Who computes, and how many of a step's examples."""

from functools import partial

from autosync.space import Entry, Menu, equal_loads, streamed_loads

MENU = Menu(
    name="loads",
    description="who computes how much: dynamic batching, ScaDLES, and Scavenger's workers and batch",
    entries=(
        Entry("dynamic batching", "Tyagi and Sharma 2020, dead band 0.05", partial(equal_loads, 0.05, 1.0)),
        Entry("scadles", "Tyagi and Swany 2022, examples as they come", streamed_loads),
        Entry("1 worker fewer", "Tyagi and Sharma 2023, K of Scavenger", leaves=1),
        Entry("2 workers fewer", "Tyagi and Sharma 2023, K of Scavenger", leaves=2),
        Entry("0.5 x batch", "Tyagi and Sharma 2023, B of Scavenger", partial(equal_loads, None, 0.5)),
        Entry("2 x batch", "Tyagi and Sharma 2023, B of Scavenger", partial(equal_loads, None, 2.0)),
        Entry("4 x batch", "Tyagi and Sharma 2023, B of Scavenger", partial(equal_loads, None, 4.0)),
    ),
)

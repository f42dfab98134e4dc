"""The heap finds the same least loaded device as a search through all devices."""

import random

from autosync.spec import Lightest


def test_it_is_the_first_of_the_least_however_loads_grow() -> None:
    rng = random.Random(0)
    devices = [f"d{index}" for index in range(7)]
    loads = dict.fromkeys(devices, 0.0)
    of_all, of_some = Lightest(devices, loads), Lightest(devices[::2], loads)
    for _ in range(300):
        assert of_all.first() == min(devices, key=loads.__getitem__)
        assert of_some.first() == min(devices[::2], key=loads.__getitem__)
        loads[rng.choice((of_all.first(), rng.choice(devices)))] += rng.choice((0.0, 1.0, 1.0, 2.5))

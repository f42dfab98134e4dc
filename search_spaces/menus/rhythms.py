"""The menu of rhythms: in which steps replicas meet."""

from functools import partial

from autosync.space import Discipline, Menu, MenuEntry, Rhythm, block_momentum, elastic

MENU = Menu(
    name="rhythms",
    description="how often replicas meet: local SGD and FedAvg, SelSync, BMUF, EASGD",
    entries=(
        MenuEntry("local sgd", "Stich 2019, 8 steps", Discipline(Rhythm(8))),
        MenuEntry("post-local sgd", "Lin et al. 2020, 8 steps after 100", Discipline(Rhythm(8, after=100))),
        MenuEntry("fedavg", "McMahan et al. 2017, all clients, 32 steps", Discipline(Rhythm(32))),
        MenuEntry("selsync", "Tyagi and Swany 2023, threshold 0.3", Discipline(Rhythm(threshold=0.3))),
        MenuEntry("selsync by quantile", "the same, a tenth of the steps", Discipline(Rhythm(quantile=0.9))),
        MenuEntry("bmuf", "Chen and Huo 2016, 8 steps, momentum 1 - 1 / n", partial(block_momentum, 8)),
        MenuEntry("easgd", "Zhang et al. 2015, 10 steps, beta 0.9", partial(elastic, 10, 0.9)),
    ),
)

"""Whom a step waits for."""

from functools import partial

from autosync.space import CutOff, Discipline, Entry, Menu, backup_workers

MENU = Menu(
    name="cut_offs",
    description="whom a step waits for: backup workers, and policies that decide for how many",
    entries=(
        Entry("backup worker", "Chen et al. 2016, one of them", partial(backup_workers, 1)),
        Entry("elfving", "as BDSGD's rival", Discipline(waits=CutOff(policy="elfving"))),
        Entry("empirical", "BDSGD's reviewers", Discipline(waits=CutOff(policy="empirical"))),
        Entry("filter", "a positive filter", Discipline(waits=CutOff(policy="filter"))),
        Entry("bandit", "BDSGD's reviewers", Discipline(waits=CutOff(policy="bandit"))),
        Entry("bdsgd", "Teng and Wood 2018, with censoring", Discipline(waits=CutOff(policy="learned"))),
        Entry("dbw", "Xu et al. 2020, by the noise scale", Discipline(waits=CutOff(policy="gain"))),
    ),
)

"""The menu of cut-offs: which replicas a step waits for."""

from functools import partial

from autosync.space import CutOff, Discipline, Menu, MenuEntry, backup_workers

MENU = Menu(
    name="cut_offs",
    description="which replicas a step waits for: backup workers, and policies that choose their number",
    entries=(
        MenuEntry("backup worker", "Chen et al. 2016, one of them", partial(backup_workers, 1)),
        MenuEntry("elfving", "as BDSGD's rival", Discipline(waits=CutOff(policy="elfving"))),
        MenuEntry("empirical", "BDSGD's reviewers", Discipline(waits=CutOff(policy="empirical"))),
        MenuEntry("filter", "a positive filter", Discipline(waits=CutOff(policy="filter"))),
        MenuEntry("bandit", "BDSGD's reviewers", Discipline(waits=CutOff(policy="bandit"))),
        MenuEntry("bdsgd", "Teng and Wood 2018, with censoring", Discipline(waits=CutOff(policy="learned"))),
        MenuEntry("dbw", "Xu et al. 2020, by the noise scale", Discipline(waits=CutOff(policy="gain"))),
    ),
)

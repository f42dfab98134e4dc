"""The menu of fidelities: how much of a gradient is sent, and how."""

from functools import partial

from autosync.space import (
    AR_TOPK_RATIOS,
    AR_TOPK_WAYS,
    GRAVAC_RATIOS,
    Discipline,
    Fidelity,
    Menu,
    MenuEntry,
    by_formula,
)

MENU = Menu(
    name="fidelities",
    description="how much of a gradient is sent, and how: top-k, DGC, GraVAC, Accordion, AR-Topk",
    entries=(
        MenuEntry("top-k 0.1", "fixed", Discipline(fidelity=Fidelity((0.1,), 1)), 0.1),
        MenuEntry("top-k 0.01", "fixed", Discipline(fidelity=Fidelity((0.01,), 1)), 0.01),
        MenuEntry(
            "dgc",
            "Lin et al. 2018, its warm-up 50 steps each",
            Discipline(fidelity=Fidelity((0.25, 0.0625, 0.015625, 0.004, 0.001), 50)),
            0.001,
        ),
        MenuEntry(
            "gravac",
            "Tyagi and Swany 2023, 0.7, window 25",
            Discipline(fidelity=Fidelity(GRAVAC_RATIOS, 25, keeps=0.7)),
            0.1,
        ),
        MenuEntry(
            "gravac 0.9",
            "Tyagi and Swany 2023, 0.9, window 25",
            Discipline(fidelity=Fidelity(GRAVAC_RATIOS, 25, keeps=0.9)),
            0.1,
        ),
        MenuEntry(
            "accordion",
            "Agarwal et al. 2021, 0.5, 25 steps",
            Discipline(fidelity=Fidelity((0.1, 0.01), 25, changes=0.5)),
            0.1,
        ),
        MenuEntry("ar-topk", "Tyagi and Swany 2023, 0.01", partial(by_formula, (0.01,), AR_TOPK_WAYS, None), 0.01),
        MenuEntry(
            "ar-topk knee", "the same, time weighs 0.6", partial(by_formula, AR_TOPK_RATIOS, AR_TOPK_WAYS, 0.6), 0.1
        ),
        MenuEntry(
            "ar-topk by trial",
            "0.01, transports tried every 100 steps",
            Discipline(fidelity=Fidelity((0.01,), 100, transports=AR_TOPK_WAYS)),
            0.01,
        ),
    ),
)

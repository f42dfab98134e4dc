"""Records with chosen step times."""

from __future__ import annotations

import random
from collections.abc import Sequence

from autosync.baselines import BASELINES
from autosync.engine.core.versions import ENGINE
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol
from autosync.spec.record import ENGINE_IN_VERSIONS
from search_spaces import load_space
from tests.tune.pretend import CLUSTER, MODEL

__all__ = ["baseline", "found", "record"]


def baseline(name: str) -> Strategy:
    return BASELINES[name](MODEL, CLUSTER)


def found(count: int) -> list[Strategy]:
    """Different strategies that are not baselines."""
    space, rng = load_space("default").bind(MODEL, CLUSTER), random.Random(5)
    known = {BASELINES[name](MODEL, CLUSTER).digest for name in BASELINES}
    strategies: dict[str, Strategy] = {}
    while len(strategies) < count:
        strategy = space.sample(rng)
        if strategy.digest not in known:
            strategies[strategy.digest] = strategy
    return list(strategies.values())


def record(
    strategy: Strategy | str,
    steps: Sequence[float] = (),
    outcome: str = "ok",
    predicted_seconds: float | None = None,
    total_seconds: float = 1.0,
) -> RuntimeRecord:
    """The record of a baseline, named by its label, or of a candidate."""
    is_baseline = isinstance(strategy, str)
    return RuntimeRecord(
        model=MODEL,
        cluster=CLUSTER,
        strategy=baseline(strategy) if isinstance(strategy, str) else strategy,
        protocol=TimingProtocol(warmup_steps=5, timed_steps=9),
        outcome=outcome,
        purpose="baseline" if is_baseline else "search",
        label=strategy if isinstance(strategy, str) else "guided",
        run="example",
        seed=0,
        started_at=0.0,
        setup_seconds=0.25,
        total_seconds=total_seconds,
        step_seconds=tuple(steps),
        reason="" if outcome == "ok" else f"it {outcome}",
        predicted_seconds=predicted_seconds,
        versions={ENGINE_IN_VERSIONS: str(ENGINE)},
    )

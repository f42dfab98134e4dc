"""Confirms results of virtual time in paced time: cut-offs, and the period of averaging."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import numpy as np

from autosync.spec import PLAIN, CutOff, Discipline, Rhythm
from studies.literature.experiment import Claim, Experiment, WorkItem, exactly, mean_ratio
from studies.literature.live import LiveMeasurement, train_under
from studies.literature.rows import FigureRow, FigureRows
from studies.literature.waiting import oracle
from trials.fleet.lanes import Backend

RATE, STEP, BOUND = "paced gradients a second", "paced ms a step", "gradients a second, bound"
SLOWER = {2: 1.4, 3: 2.0}
"""The factor by which one of four replicas is slower, and the least gain of first 3 of 4."""

ONE_SLOW = "link: 1gbit\npace: {{fixed: 250ms}}\nnodes:\n  - {{count: 3}}\n  - {{pace: {{fixed: {slow}ms}}}}\n"
RACK = """link: 1gbit
pace: {fixed: 150ms, spread: {lognormal: 0.03}}
racks:
  slow: {pace: {fixed: 150ms, spread: {lognormal: 0.03, slow: {probability: 0.5, dwell: 50, factor: 3}}}}
nodes:
  - {count: 2}
  - {count: 2, rack: slow}
"""
SLOW_RACK = "slow rack, now and then"
RACK_STEPS = 400
WAITS = {
    "all": CutOff(4, "stop"),
    "first 3": CutOff(3, "stop"),
    "first 2": CutOff(2, "stop"),
    "filter": CutOff(policy="filter", late="stop"),
    "learned": CutOff(policy="learned", late="stop"),
}
STATIC = ("all", "first 2")
POLICIES = ("filter", "learned")
KNOWN = "known beforehand"

THIN = "link: 100mbit\npace: {fixed: 60ms}\nnodes:\n  - {count: 4}\n"
MEETING = "100 Mbit/s, 0.4 M parameters"
PERIOD = 8
RHYTHMS = {"in every step": PLAIN, "every 8th": Discipline(Rhythm(PERIOD)), "never": Discipline(Rhythm(10**6))}
TURNS = 2


def _works(seeds: int) -> Iterator[WorkItem]:
    turns = range(min(seeds, TURNS))
    for slower in SLOWER:
        measurement = LiveMeasurement(ONE_SLOW.format(slow=250 * slower), "digits", f"{__name__}:slow_node")
        yield from (
            WorkItem(f"slow {slower}-{turn}", partial(measurement.rows, f"one {slower} times slower", turn))
            for turn in turns
        )
    rack = LiveMeasurement(RACK, "digits", f"{__name__}:slow_rack")
    yield from (WorkItem(f"rack-{turn}", partial(rack.rows, SLOW_RACK, turn)) for turn in turns)
    thin = LiveMeasurement(THIN, "characters", f"{__name__}:meeting")
    yield from (WorkItem(f"meeting-{turn}", partial(thin.rows, MEETING, turn)) for turn in turns)


def slow_node(backend: Backend, cell: str, seed: int) -> list[FigureRow]:
    """Run forty steps that wait for all replicas, and forty that wait for the first three."""
    return [_rate_row(backend, cell, arm, seed, 40) for arm in ("all", "first 3")]


def slow_rack(backend: Backend, cell: str, seed: int) -> list[FigureRow]:
    """Run every policy, and compute the rate of an oracle that knows all passes beforehand."""
    rows = [_rate_row(backend, cell, arm, seed, RACK_STEPS) for arm in (*STATIC, *POLICIES)]
    profile = backend.model.profile
    assert profile is not None
    paces = [(node.pace, f"{node.name}/cpu:0") for node in backend.cluster.nodes]
    times = [
        [pace.seconds(profile, seed, step, device) for pace, device in paces if pace] for step in range(RACK_STEPS)
    ]
    return [*rows, FigureRow(cell, KNOWN, seed, BOUND, oracle(np.array(times)), "virtual")]


def _rate_row(backend: Backend, cell: str, arm: str, seed: int, steps: int) -> FigureRow:
    record = train_under(backend, Discipline(waits=WAITS[arm]), steps, seed)
    rate = sum(record.counted) / sum(record.step_seconds)
    return FigureRow(cell, arm, seed, RATE, rate, "paced", record.cluster.numbers)


def meeting(backend: Backend, cell: str, seed: int) -> list[FigureRow]:
    """Run steps with each rhythm."""
    rows = []
    for arm, discipline in RHYTHMS.items():
        record = train_under(backend, discipline, 8 * PERIOD, seed)
        rows.append(
            FigureRow(
                cell, arm, seed, STEP, 1e3 * statistics.fmean(record.step_seconds), "paced", record.cluster.numbers
            )
        )
    return rows


def _claims(rows: FigureRows) -> Iterator[Claim]:
    for slower, least in SLOWER.items():
        gained = mean_ratio(rows.ratios(f"one {slower} times slower", "first 3", "all", RATE))
        yield Claim(f"first 3 of 4 over all, one {slower} times slower", gained, least, bound=0.75 * slower)
    static = {arm: statistics.fmean(rates.values()) for arm in STATIC if (rates := rows.values(SLOW_RACK, arm, RATE))}
    best = max(static, key=lambda arm: static[arm], default="all")
    known, static_rates = rows.values(SLOW_RACK, KNOWN, BOUND), rows.values(SLOW_RACK, best, RATE)
    bound = (
        statistics.fmean([known[seed] / static_rates[seed] for seed in static_rates if seed in known])
        if static_rates
        else None
    )
    for arm in POLICIES:
        gained = mean_ratio(rows.ratios(SLOW_RACK, arm, best, RATE))
        yield Claim(f"{arm} over {best}, the best static count, slow rack", gained, 1.25, bound=bound)
    every, eighth, never = (rows.values(MEETING, arm, STEP) for arm in RHYTHMS)
    ratios = [eighth[seed] / (never[seed] + (every[seed] - never[seed]) / PERIOD) for seed in eighth]
    share = exactly(float("nan")) if not ratios else mean_ratio(np.array(ratios))
    yield Claim(
        "a step that meets every 8th time, over the prediction from always and never", share, 0.95, 1.05, bound=1.0
    )


EXPERIMENTS = (Experiment("paced", "What virtual time says, in paced time", 1, _works, _claims, RATE),)

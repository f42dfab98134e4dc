"""The report of a race: loss over seconds and over steps, the controllers' decisions, and their cost."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError
from autosync.report.blocks import (
    Block,
    Headline,
    Note,
    Paragraph,
    Picture,
    Points,
    Section,
    Table,
    TableRow,
    numbers,
    texts,
)
from autosync.report.page import Page, write_page
from autosync.report.pictures.race import DECISIONS, draw_curves, draw_decisions
from autosync.runs.race_folder import COMBINED, RaceFolder
from autosync.spec import TargetRecord
from autosync.words.cluster import cluster_lines
from autosync.words.commands import RanOn, train_command
from autosync.words.quantities import count_of

NOTHING = "\N{EN DASH}"

MOST_DRAWN = 8
"""The maximum number of candidates whose decisions are drawn, per kind of decision."""


def write_race_report(folder: RaceFolder) -> Path:
    """Write `report.html`, with PNG files in `report/`. Raises `AutosyncError` for a race without an outcome."""
    result, records = folder.result(), folder.records()
    if result is None or not records:
        raise AutosyncError(f"The race in {folder.path} has no outcome yet; resume it with --resume, and let it end.")
    page = Page(
        _headline(folder, result, records),
        (
            Section("outcome", "The outcome", "Outcome", _outcome(result)),
            Section("curves", "Loss over seconds and over steps", "Curves", _curves(result, records)),
            Section("decisions", "Decisions of the controllers", "Decisions", _decisions(result, records)),
            Section("cost", "Cost of decisions", "Cost", [_cost(records)]),
            Section("where", "Where", "Where", [Points(list(cluster_lines(records[0].cluster)))]),
        ),
        f"Race {folder.path.name}",
        f"Made by autosync from {folder.path}; the page loads nothing from elsewhere.",
    )
    return write_page(page, folder.path / "report.html", "report")


def _headline(folder: RaceFolder, result: Mapping[str, Any], records: Sequence[TargetRecord]) -> Headline:
    asked, target = folder.asked(), records[0].target
    figure, uncertainty, sentence = _claim(result)
    model, strategy = str(asked.get("model") or records[0].model.name), str(folder.strategy_file)
    ran_on = RanOn.of(asked.get("ran_on") or {})
    return Headline(
        f"{records[0].model.name} to {target.metric} {target.threshold:g}",
        figure,
        "as fast as plain training",
        uncertainty,
        sentence,
        "Train with the strategy that is returned.",
        lines=[(train_command(model, strategy, ran_on), "train with it")],
        facts=(
            ("Runs", str(len(records))),
            ("Seconds", "of real passes" if result["time"] == "real" else str(result["time"])),
        ),
    )


def _claim(result: Mapping[str, Any]) -> tuple[str, str, str]:
    """The speed-up of the returned strategy, its uncertainty, and a sentence on the best candidate."""
    winner = next(place for place in result["places"] if place["name"] == result["winner"])
    over, name = winner["times_as_fast_as_plain"], winner["name"]
    if result["proven"]:
        return _times(over), _interval(over), f"{name} reaches the target sooner than plain training, beyond the noise."
    if result["returned"] == name:
        return _times({"value": 1.0}), "", "No discipline was faster than plain training, which is returned."
    return (
        _times({"value": 1.0}),
        f"the best candidate: {_times(over)}, {_interval(over)}",
        f"No candidate is faster than plain training beyond the noise, so plain training is returned; the best "
        f"candidate was {name}.",
    )


def _times(estimate: Mapping[str, float | None]) -> str:
    return NOTHING if estimate["value"] is None else f"{estimate['value']:.2f}\N{MULTIPLICATION SIGN}"


def _interval(estimate: Mapping[str, float | None]) -> str:
    low, high = estimate["low"], estimate["high"]
    return f"95 % interval {low:.2f} to {high:.2f}, over paired seeds" if low and high else "one seed only"


def _outcome(result: Mapping[str, Any]) -> list[Block]:
    def figure(value: float | None, digits: int = 2) -> str:
        return NOTHING if value is None else f"{value:.{digits}f}"

    def ratio(estimate: Mapping[str, float | None]) -> str:
        if estimate["value"] is None:
            return NOTHING
        ends = f" [{figure(estimate['low'])}, {figure(estimate['high'])}]" if estimate["high"] is not None else ""
        return figure(estimate["value"]) + ends

    rows = [
        TableRow(
            (
                place["name"],
                f"{place['reached']} of {place['seeds']}",
                figure(place["seconds"]),
                figure(place["steps"], 0),
                figure(None if place["step_seconds"] is None else place["step_seconds"] * 1e3, 1),
                ratio(place["times_as_fast_as_plain"]),
                ratio(place["winner_over_it"]),
            ),
            strong=place["name"] == result["winner"],
        )
        for place in result["places"]
    ]
    seeds = ", ".join(map(str, result["judged_seeds"]))
    columns = (
        *texts("candidate"),
        *numbers("reached", "seconds", "steps", "ms a step", "over plain", "winner over it"),
    )
    caption = (
        "Medians over the runs that reached the target; ratios are geometric means over the paired seeds "
        f"{seeds}, with 95 % intervals over resampled seeds. A run that was given up counts with the duration "
        "that it was expected to have, by how far it was behind."
    )
    blocks: list[Block] = [Table(columns, rows, caption)]
    if result["faults"]:
        blocks.append(Points([f"{name} failed: {reason}" for name, reason in result["faults"].items()]))
    return blocks


def _names_in_colour(result: Mapping[str, Any]) -> list[str]:
    """The candidates that are drawn in colour: plain training, the winner, and the next ones."""
    names = [place["name"] for place in result["places"] if place["name"] != "plain"]
    return ["plain", *names[:3]]


def _curves(result: Mapping[str, Any], records: Sequence[TargetRecord]) -> list[Block]:
    caption = (
        "The held-out loss of every run: the plain strategy and three fast ones in colour, all others in grey; over "
        "the run's seconds above, and over its steps below. The dashed line is the target."
    )
    alt = "Falling curves of the loss of every run, over seconds and over steps"
    return [Picture("curves", alt, caption, partial(draw_curves, records, _names_in_colour(result)))]


def _decisions(result: Mapping[str, Any], records: Sequence[TargetRecord]) -> list[Block]:
    blocks: list[Block] = []
    places = [place["name"] for place in result["places"]]
    alone_names = {name for name in places if COMBINED not in name}
    for kind, (field, what) in DECISIONS.items():
        of_kind = [
            record for record in records if record.decided and getattr(record.decided, field) and record.seed == 0
        ]
        of_kind = sorted(
            (record for record in of_kind if record.label in places), key=lambda record: places.index(record.label)
        )
        alone = [record for record in of_kind if record.label in alone_names]
        varying = [record for record in alone if len(set(getattr(record.decided, field))) > 1][:MOST_DRAWN]
        if varying:
            caption = f"{what}, step by step in the first seed's run, of {count_of(len(varying), 'candidate')}."
            blocks.append(Picture(f"decisions-{kind}", what, caption, partial(draw_decisions, varying, field, what)))
    return blocks or [Note("No decision varied from step to step.")]


def _cost(records: Sequence[TargetRecord]) -> Block:
    of: dict[str, list[TargetRecord]] = {}
    for record in records:
        if record.controller_seconds and record.step_seconds:
            of.setdefault(record.label, []).append(record)
    if not of:
        return Paragraph("No candidate has a controller.")
    rows = []
    for name, runs in of.items():
        a_step = [record.controller_seconds / record.steps for record in runs]
        share = [record.controller_seconds / sum(record.step_seconds) for record in runs]
        rows.append(TableRow((name, f"{statistics.median(a_step) * 1e6:.0f}", f"{statistics.median(share):.3%}")))
    columns = (*texts("candidate"), *numbers("\N{GREEK SMALL LETTER MU}s a step", "share of the run"))
    return Table(
        columns,
        rows,
        "The controllers' time for decisions and learning, in the process that runs the steps; medians over runs.",
    )

"""`autosync pretrain`: a simulator is fitted, saved, and tested for its card."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autosync.files import write_atomically
from autosync.runs.tables import FittedTable
from autosync.simulator.learned import LearnedSimulator
from autosync.simulator.saved import shipped_folder
from autosync.simulator.streamed import STREAMING
from autosync.spec.address import Place
from autosync.studies.evaluation.cells import MeasuredCell, cells_to_teach, measured_cells, split_of
from autosync.studies.evaluation.metrics import METRICS
from autosync.studies.evaluation.pretraining import card_of, pretrained, pretrained_by_stream
from autosync.studies.evaluation.sources import Source, opened
from autosync.terminal import say, say_all

CARD = "card.json"
SHOWN = ("pairwise", "peak_at_1", "mape", "coverage")
"""Metrics that are printed; the card has all."""


def pretrain(data: Place, kind: str | None, out: Path | None, network: str, seed: int, workers: int | None) -> None:
    """Fit the simulator, write its checkpoint to `out` with a card, and print the card. Raises `AutosyncError`."""
    with opened(data, kind, workers) as source:
        say_all(source.in_words())
        cells, small = measured_cells(source.records, split_of)
        say_all(f"Not on the card: {sentence}" for sentence in small)
        learned = _learned(source, cells_to_teach(source.records, split_of), network, seed, workers)
    out = out or shipped_folder(learned.kinds[0])
    learned.save(out)
    card = card_of(learned, cells)
    write_atomically(out / CARD, json.dumps(card, indent=1) + "\n")
    say_all(_table(card))
    size = sum(file.stat().st_size for file in out.iterdir())
    say(f"{network}, fitted on {card['records']} records: {size / 1e6:.2f} MB in {out}")


def _learned(
    source: Source, cells: Sequence[MeasuredCell], network: str, seed: int, workers: int | None
) -> LearnedSimulator:
    """A simulator fitted on all records, by those in memory where they are all or where it reads more than is kept."""
    if source.survey is None or (workers is None and (source.is_whole or network != STREAMING)):
        if not source.is_whole:
            say(f"Only the network {STREAMING} is fitted on all of them; {network} is on that sample.")
        return pretrained(cells, network, seed)
    return pretrained_by_stream(cells, source.survey, network, seed, workers)


def _table(card: Mapping[str, Any]) -> list[str]:
    """One line for each cell, and the mean of all."""
    table = FittedTable()
    table.texts("cell")
    table.numbers(*(METRICS[name].heading for name in SHOWN))
    for row in (*card["cells"], {"cell": "mean", **card["mean"]}):
        table.row((row["cell"], *("-" if row[name] is None else f"{row[name]:.3f}" for name in SHOWN)))
    return table.lines()

"""`autosync pretrain`: fits a simulator, saves it, and tests it for its card."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autosync.files import write_atomically
from autosync.pretraining.cells import MeasuredCell, build_cells, cells_to_teach, split_of
from autosync.pretraining.metrics import METRICS
from autosync.pretraining.pretraining import card_of, fit_by_stream, fit_in_memory
from autosync.pretraining.sources import Source, open_source
from autosync.runs.tables import FittedTable
from autosync.simulator.learned import LearnedSimulator
from autosync.simulator.saved import shipped_folder
from autosync.simulator.streamed import STREAMING
from autosync.spec.address import Place
from autosync.terminal import say, say_all

CARD = "card.json"
SHOWN = ("pairwise", "peak_at_1", "mape", "coverage")
"""The printed metrics; the card has all metrics."""


def pretrain(
    data: Place,
    kind: str | None,
    framework: str | None,
    out: Path | None,
    network: str,
    seed: int,
    workers: int | None,
) -> None:
    """Fit the simulator, write its checkpoint to `out` with a card, and print the card. Raises `AutosyncError`."""
    with open_source(data, kind, workers, framework) as source:
        say_all(source.in_words())
        cells, small = build_cells(source.records, split_of)
        say_all(f"Not on the card: {sentence}" for sentence in small)
        learned = _fit(source, cells_to_teach(source.records, split_of), network, seed, workers)
    out = out or shipped_folder(learned.kinds[0])
    learned.save(out)
    card = card_of(learned, cells)
    write_atomically(out / CARD, json.dumps(card, indent=1) + "\n")
    say_all(_table(card))
    size = sum(file.stat().st_size for file in out.iterdir())
    say(f"{network}, fitted on {card['records']} records: {size / 1e6:.2f} MB in {out}")


def _fit(
    source: Source, cells: Sequence[MeasuredCell], network: str, seed: int, workers: int | None
) -> LearnedSimulator:
    """Return a simulator fitted on all records: in memory if they fit or if the network cannot be streamed, else by
    stream.
    """
    if source.survey is None or (workers is None and (source.is_whole or network != STREAMING)):
        if not source.is_whole:
            say(f"Only the network {STREAMING} can be fitted on all records; {network} is fitted on that sample.")
        return fit_in_memory(cells, network, seed)
    return fit_by_stream(cells, source.survey, network, seed, workers)


def _table(card: Mapping[str, Any]) -> list[str]:
    """Return one line for each cell, and a line with the mean of all cells."""
    table = FittedTable()
    table.texts("cell")
    table.numbers(*(METRICS[name].heading for name in SHOWN))
    for row in (*card["cells"], {"cell": "mean", **card["mean"]}):
        table.row((row["cell"], *("-" if row[name] is None else f"{row[name]:.3f}" for name in SHOWN)))
    return table.lines()

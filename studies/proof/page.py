"""Writes the page of the proof: tables as Markdown and CSV, pictures as PNG, from the kept results."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

from autosync.files import inner_folder, write_atomically
from studies.pages import RC, write_picture
from studies.proof.outcomes import by_cell, check_any, outcomes_of
from studies.proof.pictures import curves_picture, gains_picture
from studies.proof.results import ProofResults
from studies.proof.tables import ALL_CELLS, gains_table, methods_table, steps_table, training_table, trials_table
from studies.proof.targets import targets_table
from studies.proof.waterfall import waterfall_picture, waterfall_table, waterfalls

PAGE = "proof.md"


def write_page(out: Path) -> Path:
    """Write the page into the folder `report` of `out`, and return its path. Raises `BenchError` without results."""
    results = ProofResults.read_only(out)
    outcomes = outcomes_of(results.finals.read(), results.methods.read())
    check_any(outcomes, out)
    found = by_cell(outcomes)
    cells = {cell: found[cell] for cell in ALL_CELLS if cell in found}
    folder = inner_folder(out, "report")
    tables = [
        targets_table(cells),
        gains_table(cells),
        steps_table(cells),
        training_table(outcomes, results.training.read()),
        trials_table(cells),
        methods_table(outcomes),
        waterfall_table(falls := waterfalls(cells, results.records.read())),
    ]
    with mpl.rc_context(dict[Any, Any](RC)):
        pictures = {
            "gains": gains_picture(cells),
            "trials": curves_picture(outcomes),
            "waterfall": waterfall_picture(falls),
        }
        for name, figure in pictures.items():
            write_picture(folder, name, figure, ("png",))
    for table in tables:
        write_atomically(folder / f"{table.name}.csv", table.csv())
    lines = [
        "# Proof on PyTorch",
        "",
        f"{len(outcomes)} jobs (a cell with a seed) in {len(cells)} of {len(ALL_CELLS)} cells. "
        "`python -m studies bench proof` runs them and writes this page; square brackets hold 95 % intervals.",
        "",
        f"{len(ALL_CELLS) - len(cells)} cells have not run yet; the table of gains marks them.",
        "",
        *(table.markdown() for table in tables),
        *(f"![{name}]({name}.png)\n" for name in pictures),
    ]
    write_atomically(folder / PAGE, "\n".join(lines))
    return folder / PAGE

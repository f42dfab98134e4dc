"""Writes the report of the benchmarks: tables and pictures of all results on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import matplotlib as mpl
from matplotlib.figure import Figure

from autosync.dataset import ResultStore
from autosync.errors import BenchError
from autosync.files import inner_folder, write_atomically
from autosync.search.registry import SEARCHERS
from autosync.stats.tables import TextTable
from studies.bench.columns import CELLS, LIVE, SEARCHES
from studies.bench.contenders import IDEAL, OURS
from studies.bench.cost import cost_table, live_costs, replay_costs
from studies.bench.live_tables import controls_table, live_table, rules_table
from studies.bench.live_targets import live_targets_table
from studies.bench.pictures import cell_picture, live_picture, summary_picture
from studies.bench.replay_tables import (
    ablations_table,
    cells_table,
    close_table,
    hits_table,
    improvement_table,
    summary_table,
    targets_table,
)
from studies.bench.standings import CLOSE, YARDSTICK, Standings, curves_of
from studies.bench.transferred import moves_table
from studies.bench.versions import latest, of_live, of_replay, versions_in_words
from studies.pages import RC, write_picture

PAGE = "benchmarks.md"

CELL = "cell_"
"""The prefix of the names of a cell's pictures. Each of these pictures has hundreds of curves, too many for SVG."""

COLORS = 64
"""Colors of a PNG; it is a third as large as with all colors."""

RowList = list[dict[str, Any]]


@final
@dataclass(frozen=True)
class Material:
    """The results in a folder. A cell has the results on the most records; a searcher has the results of one
    version."""

    facts: RowList
    """A row of `CELLS` for each cell."""
    searches: RowList
    """Replayed searches on recorded noise."""
    drawn: RowList
    """Replayed searches on drawn noise."""
    live: RowList

    @classmethod
    def read(cls, out: Path) -> Material:
        newest: dict[str, dict[str, Any]] = {}
        for row in sorted(
            ResultStore(out / "cells", CELLS).read(), key=lambda row: (row["records"], row["version"] or "")
        ):
            newest[row["cell"]] = row
        facts = [newest[name] for name in sorted(newest)]
        current = {row["data"] for row in facts}
        searches, drawn = (
            latest([row for row in ResultStore(out / kind, SEARCHES).read() if row["data"] in current], of_replay)
            for kind in ("searches", "drawn")
        )
        return cls(facts, searches, drawn, latest(ResultStore(out / "live", LIVE).read(), of_live))

    def standings(self, baselines: bool, drawn: bool = False) -> Standings:
        """Return the standings of searches with or without baselines, on recorded noise or on `drawn` noise."""
        return Standings.of(curves_of(self._replays(drawn)), baselines)

    def variants(self, baselines: bool, drawn: bool = False) -> Standings:
        """Return the standings of guided search, the yardstick and all variants, over the seeds that all have run."""
        rows = [row for row in self._replays(drawn) if row["baselines"] == baselines and _is_variant(row["searcher"])]
        seeds: dict[str, set[int]] = {}
        for row in rows:
            seeds.setdefault(row["searcher"], set()).add(row["seed"])
        common = set.intersection(*seeds.values()) if seeds else set()
        return Standings.of(curves_of([row for row in rows if row["seed"] in common]), baselines)

    def costs(self) -> TextTable:
        """Return the table of search costs."""
        return cost_table([*live_costs(self.live), *replay_costs(self.standings(baselines=True), self.facts)])

    def _replays(self, drawn: bool) -> RowList:
        return self.drawn if drawn else self.searches


def write_report(out: Path) -> Path:
    """Write the page and return its path.

    The same folder gets the tables as CSV and the pictures as PNG; pictures that are not of one cell also as SVG.
    Raises `BenchError` if there are no results, and `WriteError`.
    """
    material = Material.read(out)
    if not (material.searches or material.drawn or material.live):
        raise BenchError(f"{out} holds no results; run `replay` or `live` with --out {out} first.")
    folder = inner_folder(out, "report")
    page = [_heading(material)]
    for part in _parts(material):
        if isinstance(part, TextTable):
            write_atomically(folder / f"{part.name}.csv", part.csv())
            page.append(part.markdown())
        else:
            name, figure = part
            kinds = ("png",) if name.startswith(CELL) else ("png", "svg")
            write_picture(folder, name, figure, kinds, COLORS)
            page.append(f"![{name.replace('_', ' ')}]({name}.{kinds[-1]})\n")
    write_atomically(folder / PAGE, "\n".join(page))
    return folder / PAGE


def _heading(material: Material) -> str:
    lines = ["# Benchmarks of the search", ""]
    replayed = [*material.searches, *material.drawn]
    lines.append(f"{len(replayed)} replayed searches and {len(material.live)} live ones.")
    for how, rows, version_of in (("replayed", replayed, of_replay), ("live", material.live, of_live)):
        if rows:
            lines.append(f"Versions of the {how} ones: {versions_in_words(rows, version_of)}.")
        codes = Counter(row["code"] for row in rows)
        if len(codes) > 1:
            counts = ", ".join(f"{count} with {code}" for code, count in codes.most_common())
            lines.append(f"The {how} ones were not all run with one source of autosync: {counts}.")
    lines.append("Square brackets hold 95 % intervals over seeds, for these cells.")
    return "\n".join([*lines, ""])


def _parts(material: Material) -> Iterator[TextTable | tuple[str, Figure]]:
    """Yield tables and pictures in the page's order."""
    with mpl.rc_context(dict[Any, Any](RC)):
        if material.searches or material.drawn:
            yield from _replay_parts(material)
        if material.live:
            yield live_targets_table(material.live)
            yield live_table(material.live)
            yield controls_table(material.live)
            yield rules_table(material.live)
            yield moves_table(material.live)
            if figure := live_picture(material.live):
                yield "live_searches", figure
        yield material.costs()


def _replay_parts(material: Material) -> Iterator[TextTable | tuple[str, Figure]]:
    yield cells_table(material.facts)
    for drawn, suffix, title in ((False, "", ""), (True, "_drawn", "noise drawn, ")):
        yield from _start_parts(material, True, drawn, suffix, f"{title}baselines given")
        yield from _start_parts(material, False, drawn, f"{suffix}_bare", f"{title}no baselines given")


def _start_parts(
    material: Material, baselines: bool, drawn: bool, suffix: str, title: str
) -> Iterator[TextTable | tuple[str, Figure]]:
    standings = material.standings(baselines, drawn).only(_is_searcher)
    if standings.curves:
        yield from _standings_parts(standings, suffix, title)
    if standings.curves and not drawn:  # a drawn cell differs by seed, so one picture of it would be misleading
        yield hits_table(standings, material.facts, f"hits{suffix}", title)
        yield from ((f"{CELL}{_plain(cell)}{suffix}", cell_picture(standings, cell)) for cell in standings.cells)
    variants = material.variants(baselines, drawn)
    if set(variants.searchers) - {OURS, YARDSTICK}:
        yield ablations_table(variants, f"ablations{suffix}", f"Ablations, {title}")
        yield summary_table(variants, f"variants{suffix}", f"Guided search and its variants, {title}")


def _standings_parts(standings: Standings, suffix: str, title: str) -> Iterator[TextTable | tuple[str, Figure]]:
    yield targets_table(standings, f"targets{suffix}", f"Targets on recorded pools, {title}")
    yield summary_table(standings, f"summary{suffix}", f"Searchers, {title}")
    if figure := summary_picture(standings, title):
        yield f"summary{suffix}_trials", figure
    for share in CLOSE:
        yield close_table(standings, share, f"within_{100 * share:.0f}_percent{suffix}", title)
    yield improvement_table(standings, f"improvement{suffix}", title)


def _is_searcher(name: str) -> bool:
    """Return whether the name is one of autosync.tune's searchers or the oracle, rather than a variant."""
    return name in (*SEARCHERS, IDEAL)


def _is_variant(name: str) -> bool:
    """Return whether the name is a variant, guided search or the yardstick."""
    return name in (OURS, YARDSTICK) or not _is_searcher(name)


def _plain(name: str) -> str:
    return "".join(character if character.isalnum() or character in "-_" else "_" for character in name)

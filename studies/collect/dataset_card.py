"""Writes the data card of the whole dataset: every folder of records below `runtimes`, by framework, engine and kind of
time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from autosync.dataset import COLUMNS, SCHEMA, Column, RecordStore, split_of
from autosync.engine.core.registry import DEFAULT
from autosync.engine.core.versions import VERSIONS
from autosync.errors import DatasetError
from autosync.files import write_atomically
from autosync.spec import parse_json
from autosync.spec.record import ENGINE_IN_VERSIONS
from autosync.stats.cells import cell_of
from autosync.stats.tables import markdown_rows

CARD = "DATASET.md"
WANTED = 10_000
"""Records of present engines that the dataset is to have."""

READ = (
    "record_id", "framework", "versions", "time", "numbers", "outcome", "run", "model_name", "cluster_digest",
    "strategy_digest", "started_at", "step_seconds",
)  # fmt: skip

PANDAS = """from pathlib import Path
import pandas as pd

files = sorted(Path("runtimes").glob("**/records/*.parquet"))
rows = pd.concat(map(pd.read_parquet, files)).drop_duplicates("record_id")
timed = rows[rows.outcome.isin(["ok", "stopped"])]
print(timed.groupby(["model_name", "time"]).median_seconds.describe())"""

RAY = """from pathlib import Path
import ray

files = [str(file.resolve()) for file in Path("runtimes").glob("**/records/*.parquet")]
rows = ray.data.read_parquet(files).select_columns(["model_name", "time", "median_seconds"])
print(rows.to_pandas().groupby(["model_name", "time"]).median_seconds.describe())"""

SPLIT = """from hashlib import sha256

percent = rows.strategy_digest.map(lambda name: int.from_bytes(sha256(name.encode()).digest()[:8], "big") % 100)
rows["split"] = pd.cut(percent.astype(int), [-1, 59, 79, 99], labels=["train", "validation", "test"])"""


def write_dataset_card(root: Path) -> Path:
    """Write `CARD` into `root`, and return its path. Raises `DatasetError` without records, and `WriteError`."""
    rows = read_rows(root)
    write_atomically(root / CARD, "\n".join(_lines(rows)) + "\n")
    return root / CARD


def read_rows(root: Path) -> pd.DataFrame:
    """Return some columns of all records below `root`, each once, with its folder, framework, engine and split.

    `folder` is relative to `root`. Raises `DatasetError` if there are none.
    """
    folders = sorted(path for path in root.glob("**/records") if path.is_dir())
    tables = [RecordStore(folder).to_pandas(READ).assign(folder=_name(folder, root)) for folder in folders]
    tables = [table for table in tables if len(table)]
    if not tables:
        raise DatasetError(f"A data card needs records, but no folder below {root} has any; collect some first.")
    rows = pd.concat(tables, ignore_index=True).drop_duplicates("record_id", ignore_index=True)
    rows["framework"] = rows.framework.astype(object).where(rows.framework.notna(), DEFAULT)
    versions = {text: _version_in(text) for text in rows.versions.unique()}
    rows["engine"] = rows.versions.map(versions)
    rows["present"] = [
        engine == str(VERSIONS.get(name)) for name, engine in zip(rows.framework, rows.engine, strict=True)
    ]
    rows["kind"] = [
        time if time == "real" else f"{time}, {numbers} gradients"
        for time, numbers in zip(rows.time, rows.numbers, strict=True)
    ]
    rows["timed"] = rows.outcome.isin(["ok", "stopped"]) & (rows.step_seconds.map(len) > 0)
    rows["split"] = rows.strategy_digest.map(split_of)
    return rows


def _name(folder: Path, root: Path) -> str:
    name = str(folder.parent.relative_to(root))
    return root.name if name == "." else f"{root.name}/{name}"


def _version_in(versions: str) -> str:
    return str(parse_json(versions, "A record's versions").get(ENGINE_IN_VERSIONS, "unknown"))


def _lines(rows: pd.DataFrame) -> Iterator[str]:
    present = rows[rows.present]
    yield "# The dataset of runtimes"
    yield ""
    yield (
        "Step times of data-parallel training under different gradient-synchronization strategies. A row is one trial: "
        "a model, a cluster, a strategy, and the time of every timed step. All trials ran for real, on clusters "
        "emulated on one machine. `python -m studies collect --dataset` writes this page."
    )
    yield ""
    yield (
        f"**{len(rows)} records, {len(present)} of them of the present engines** (goal: {WANTED}), "
        f"{int(present.timed.sum())} of these with a step time. "
        f"{rows.strategy_digest.nunique()} strategies, {rows.model_name.nunique()} models, "
        f"{rows.cluster_digest.nunique()} measured clusters, {int(rows.step_seconds.map(len).sum())} timed steps."
    )
    yield ""
    yield (
        "Times of different frameworks, engines or kinds are never compared or mixed. *Paced* passes are waited for. "
        "They follow the profile in the record; until 11:00 UTC on 30 November 2026, they [did not](README.md). "
        "On PyTorch, replicas of a model whose sparse variables have no `rows_of_two` look up the same rows, which "
        "[makes servers of these variables faster](pytorch/same_rows/README.md) than data would."
    )
    yield ""
    yield from _counts(rows)
    yield ""
    yield from _cells(present)
    yield ""
    yield from _use()
    yield ""
    yield from _splits(present)
    yield ""
    yield from _schema()


def _counts(rows: pd.DataFrame) -> Iterator[str]:
    groups = rows.groupby(["present", "framework", "engine", "kind", "folder"], sort=True)
    ordered = sorted(groups, key=lambda group: (not group[0][0], *group[0][1:]))
    yield from markdown_rows(
        ("framework", "engine", "present", "kind of time", "folder", "records", "with a time", "strategies", "days"),
        [
            (
                framework,
                engine,
                "yes" if is_present else "no",
                kind,
                folder,
                str(len(group)),
                str(int(group.timed.sum())),
                str(group.strategy_digest.nunique()),
                _days(group.started_at),
            )
            for (is_present, framework, engine, kind, folder), group in ordered
        ],
    )


def _cells(present: pd.DataFrame) -> Iterator[str]:
    names = [(framework, cell_of(run)) for framework, run in zip(present.framework, present.run, strict=True)]
    clusters = {(framework, cell.cluster) for framework, cell in names if cell is not None}
    models = sorted(set(present.model_name))
    yield "## Records of present engines by model"
    yield ""
    frameworks = sorted(set(present.framework))
    yield from markdown_rows(
        ("model", *frameworks),
        [
            (
                model,
                *(str(int(((present.model_name == model) & (present.framework == name)).sum())) for name in frameworks),
            )
            for model in models
        ],
    )
    yield ""
    for name in frameworks:
        named = sorted(cluster for framework, cluster in clusters if framework == name)
        yield f"Clusters of {name} in collections: {', '.join(named) or 'none'}."


def _use() -> Iterator[str]:
    yield "## Reading it"
    yield ""
    yield (
        "Licence: that of the repository ([Apache 2.0](../LICENSE)). The files are Parquet, and can be read without "
        "autosync. With pandas:"
    )
    yield from ("", "```python", PANDAS, "```", "", "With Ray Data:", "", "```python", RAY, "```", "")
    yield "`autosync.dataset.RecordStore` reads a folder as Python objects, and compares files with their checksums."


def _splits(present: pd.DataFrame) -> Iterator[str]:
    yield "## Splits"
    yield ""
    counts = present.split.value_counts()
    said = ", ".join(f"{name} {int(counts.get(name, 0))}" for name in ("train", "validation", "test"))
    yield (
        f"Strategies are divided into 60 % train, 20 % validation and 20 % test by the SHA-256 of their digest, so a "
        f"strategy is in one part on all clusters. Records of present engines: {said}. For unseen models or clusters, "
        "leave a model's or a cluster's rows out (`model_name`, `cluster_digest`)."
    )
    yield from ("", "```python", SPLIT, "```")


def _schema() -> Iterator[str]:
    yield "## Columns"
    yield ""
    yield (
        f"Version {SCHEMA.version} of the schema; each file states its version, and each column its unit and meaning. "
        "Files of older versions lack the columns that were added since."
    )
    yield ""
    header = ("column", "type", "unit", "meaning", "since")
    yield from markdown_rows(header, [_column_row(column) for column in COLUMNS])


def _column_row(column: Column) -> Sequence[str]:
    return (f"`{column.name}`", str(column.type), column.unit, column.meaning, str(column.since))


def _days(started_at: pd.Series[float]) -> str:
    first, last = (
        pd.Timestamp(seconds, unit="s").strftime("%Y-%m-%d") for seconds in (started_at.min(), started_at.max())
    )
    return first if first == last else f"{first} to {last}"

"""Files of every version can be read; the program refuses newer versions."""

from __future__ import annotations

import shutil
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autosync.dataset import COLUMNS, SCHEMA, Column, RecordStore, Schema
from autosync.dataset.files import read_file
from autosync.dataset.schema import VERSION_KEY
from autosync.errors import DatasetError, SpecError
from autosync.spec import Figure, KeptPace, LaterRate, Pace, RuntimeRecord, canonical_json, parse_json
from autosync.spec.record import OUTCOMES
from tests.dataset.examples import example_record

VERSION_1 = Path(__file__).parents[1] / "data" / "records_v1.parquet"
"""Three records written by the first version of the program; do not regenerate the file."""


def test_a_file_of_version_1_still_opens(tmp_path: Path):
    shutil.copy(VERSION_1, tmp_path)
    records = RecordStore.create(tmp_path).read()
    assert [record.outcome for record in records] == ["ok", "ok", "failed"]
    assert [record.label for record in records] == ["parameter_server", "balanced_parameter_server", "parallax"]
    assert [record.median_seconds for record in records] == [0.125, 0.125, None]
    assert [record.started_at for record in records] == [1_700_000_000.0, 1_700_000_001.0, 1_700_000_008.0]
    assert {record.model.name for record in records} == {"mlp"}
    assert {(record.sequence, record.load_average) for record in records} == {(None, None)}


def test_a_column_added_in_a_later_version_is_filled_in_older_files():
    since = SCHEMA.version + 1
    column = Column("of_later", pa.float64(), "J", "energy of a step", since=since, fill=-1.0)
    later = Schema(since, (*COLUMNS, column))
    table = read_file(VERSION_1, later)
    assert table.schema == later.arrow
    assert table.column("of_later").to_pylist() == [-1.0] * 3
    shared = ["record_id", "step_seconds", "strategy_json"]
    assert table.select(shared).equals(read_file(VERSION_1).select(shared))


def test_a_store_reads_and_merges_a_file_older_than_a_column(tmp_path: Path):
    store = RecordStore.create(tmp_path)
    store.append(example_record(0))
    (path,) = tmp_path.iterdir()
    old = pq.read_table(path).drop_columns(["mean_seconds"])
    pq.write_table(old.replace_schema_metadata({VERSION_KEY: b"0"}), path)
    store.append(example_record(1))
    assert store.read() == [example_record(0), example_record(1)]
    assert store.compact() == 2
    assert store.read() == [example_record(0), example_record(1)]
    assert store.to_pandas()["mean_seconds"].isna().tolist() == [True, False]


def test_a_column_missing_from_a_file_that_should_have_it_is_refused(tmp_path: Path):
    pq.write_table(pq.read_table(VERSION_1).drop_columns(["host"]), tmp_path / "odd.parquet")
    with pytest.raises(DatasetError, match=r"odd.parquet lacks the column 'host' of records; move it elsewhere"):
        RecordStore(tmp_path).read()


def test_a_newer_version_is_refused(tmp_path: Path):
    store, newer = RecordStore.create(tmp_path), SCHEMA.version + 1
    table = read_file(VERSION_1).replace_schema_metadata({VERSION_KEY: str(newer).encode()})
    pq.write_table(table, tmp_path / "new.parquet")
    for read in (store.read, store.compact, lambda: RecordStore.create(tmp_path)):
        if read == store.compact:
            store.append(example_record())
        with pytest.raises(
            DatasetError, match=rf"new.parquet has version {newer} .* reads up to {SCHEMA.version}; upgrade"
        ):
            read()


def test_a_column_of_another_type_is_refused(tmp_path: Path):
    table = read_file(VERSION_1)
    position = table.column_names.index("seed")
    table = table.set_column(position, "seed", pa.array(["a", "b", "c"])).replace_schema_metadata(SCHEMA.arrow.metadata)
    pq.write_table(table, tmp_path / "odd.parquet")
    with pytest.raises(DatasetError, match=r"odd.parquet has columns of types that records do not have"):
        RecordStore(tmp_path).read()


def test_column_names_are_unique_and_described():
    names = [column.name for column in COLUMNS]
    assert len(set(names)) == len(names)
    assert all(column.unit and column.meaning for column in COLUMNS)


def test_every_field_of_a_record_has_a_column():
    documents = {"model", "cluster", "strategy", "protocol", "pace"}
    assert {f"{document}_json" for document in documents} <= {column.name for column in COLUMNS}
    assert {field.name for field in fields(RuntimeRecord)} - {column.name for column in COLUMNS} == documents
    assert SCHEMA.version == COLUMNS[-1].since


EXAMPLES = {"framework": "pytorch"}
MAY_KNOW = [
    field.name for field in fields(RuntimeRecord) if field.default is None and field.name not in ("pace", "phases")
]


@pytest.mark.parametrize("field", MAY_KNOW)
def test_what_a_record_may_know_goes_to_json_and_to_disk_and_back(field: str, tmp_path: Path):
    known, unknown = (replace(example_record(0), **{field: value}) for value in (EXAMPLES.get(field, 3), None))
    store = RecordStore.create(tmp_path)
    for record in (known, unknown):
        assert RuntimeRecord.from_json(parse_json(canonical_json(record.to_json()), "A record")) == record
        store.append(record)
    assert [record in store.read() for record in (known, unknown)] == [True, True]
    assert store.compact() == 2
    assert [record in store.read() for record in (known, unknown)] == [True, True]


def test_the_column_of_outcomes_names_them_all():
    (meaning,) = (column.meaning for column in COLUMNS if column.name == "outcome")
    assert [outcome for outcome in OUTCOMES if outcome not in meaning] == []


def test_a_paced_record_goes_to_disk_and_back_and_says_so_in_columns_of_its_own(tmp_path: Path):
    real = example_record(0)
    nodes = tuple(replace(node, pace=Pace(0.0, 0.1)) for node in real.cluster.nodes)
    kept = KeptPace("paced", "recorded", 2, (0.1, 0.1), (0.1, 0.101), (1e-4, 1e-4), (1e-3, 2e-3))
    paced = replace(real, cluster=replace(real.cluster, nodes=nodes), pace=kept)
    failed = replace(paced, outcome="failed", reason="The loss is nan.", step_seconds=(), pace=None)
    store = RecordStore.create(tmp_path)
    for record in (real, paced, failed):
        assert RuntimeRecord.from_json(parse_json(canonical_json(record.to_json()), "A record")) == record
        store.append(record)
    assert all(record in store.read() for record in (real, paced, failed))
    assert store.compact() == 3
    assert all(record in store.read() for record in (real, paced, failed))
    table = store.to_pandas()
    assert sorted(zip(table["time"], table["numbers"], table["pace_json"].isna(), strict=True)) == [
        ("paced", "recorded", False),
        ("paced", "recorded", True),
        ("real", "real", True),
    ]
    assert "pace" not in real.to_json()


def test_a_record_says_the_phases_of_its_steps_on_disk_too_where_links_change(tmp_path: Path):
    stays = example_record(0)
    later = (LaterRate(5.0, Figure(0.1, "stated")),)
    cluster = replace(stays.cluster, links=tuple(replace(link, later=later) for link in stays.cluster.links))
    changes = replace(stays, cluster=cluster, phases=(0, 0, 1))
    failed = replace(changes, outcome="failed", reason="The loss is nan.", step_seconds=(), phases=())
    store = RecordStore.create(tmp_path)
    for record in (stays, changes, failed):
        assert RuntimeRecord.from_json(parse_json(canonical_json(record.to_json()), "A record")) == record
        store.append(record)
    assert store.compact() == 3
    assert all(record in store.read() for record in (stays, changes, failed))
    phases = {None if values is None else tuple(map(int, values)) for values in store.to_pandas()["phases"]}
    assert phases == {(), (0, 0, 1), None}
    assert "phases" not in stays.to_json()


@pytest.mark.parametrize("phases", [(0, 1), (0, 0, 2), (0, 0, -1), (0, 0, 0, 0)])
def test_phases_are_of_each_step_and_those_that_the_cluster_has(phases: tuple[int, ...]):
    stays = example_record(0)
    later = (LaterRate(5.0, Figure(0.1, "stated")),)
    cluster = replace(stays.cluster, links=tuple(replace(link, later=later) for link in stays.cluster.links))
    with pytest.raises(SpecError, match="the phase of each timed step where links change: here 3 phases from 0 to 1"):
        replace(stays, cluster=cluster, phases=phases)
    with pytest.raises(SpecError, match="the phase of each timed step where links change"):
        replace(stays, phases=(0, 0, 0))


def test_records_from_before_there_was_a_pace_are_real(tmp_path: Path):
    shutil.copy(VERSION_1, tmp_path)
    assert {(record.time, record.numbers, record.pace) for record in RecordStore.create(tmp_path).read()} == {
        ("real", "real", None)
    }

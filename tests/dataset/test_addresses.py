"""Records on a real S3 server: several head nodes at once, heads killed in the middle of writing, and refusals."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from autosync.dataset import RecordStore, remote
from autosync.dataset.files import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from autosync.errors import DatasetError
from autosync.spec import RuntimeRecord
from autosync.spec.address import Address
from tests.dataset.examples import example_record
from tests.dataset.relay import Relay
from tests.dataset.s3 import BUCKET, S3, credentials, s3_server, started

pytest.importorskip("moto.server", reason="moto serves S3 in these tests; run `pip install '.[dev]'`")

LARGE = 40_000
"""Steps of a record whose file is far larger than a socket's buffer."""

APPENDS = """
import sys
from autosync.dataset import RecordStore
from autosync.spec.address import place_of
from tests.dataset.examples import example_record
store = RecordStore.create(place_of(sys.argv[1]))
for index in range(int(sys.argv[2]), int(sys.argv[3])):
    store.append(example_record(index))
    if index % 3 == 0:
        store.compact()
"""

APPENDS_A_LARGE_ONE = """
import sys
from autosync.dataset import RecordStore
from autosync.spec.address import place_of
from tests.dataset.test_addresses import large_record
RecordStore(place_of(sys.argv[1])).append(large_record())
"""

COMPACTS = """
import sys
from autosync.dataset import RecordStore
from autosync.spec.address import place_of
RecordStore(place_of(sys.argv[1])).compact()
"""


def large_record() -> RuntimeRecord:
    return replace(example_record(99), step_seconds=tuple(0.1 + (index * 0.618) % 1 for index in range(LARGE)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with pytest.MonkeyPatch.context() as patch, s3_server(tmp_path_factory.mktemp("s3") / "log") as made:
        for name, value in credentials().items():
            patch.setenv(name, value)
        yield made


@pytest.fixture
def folder(server: S3, request: pytest.FixtureRequest) -> Address:
    return server.folder(f"{request.node.name.replace('[', '-').replace(']', '')}/records")


def keys(server: S3, folder: Address) -> list[str]:
    return server.keys(folder.base.removeprefix(f"s3://{BUCKET}/"))


def test_records_come_back_and_merge_into_one_object(server: S3, folder: Address) -> None:
    store = RecordStore.create(folder)
    assert (keys(server, folder), store.read()) == ([], [])
    records = [example_record(index) for index in range(4)]
    identities = [store.append(record) for record in [*records[::-1], records[0]]]
    assert keys(server, folder) == sorted(f"record-{identity}.parquet" for identity in set(identities))
    assert store.compact() == 4
    assert store.compact() == 0
    (name,) = keys(server, folder)
    assert RecordStore(folder).read() == records
    assert [file.name for file in store.current_files()] == [name]
    with server.files.open_input_file(f"{folder.base.removeprefix('s3://')}/{name}") as file:
        assert sorted(pd.read_parquet(file)["seed"]) == [0, 1, 2, 3], "pandas reads the object as it is"


def test_heads_that_append_and_merge_at_once_lose_nothing_and_double_nothing(server: S3, folder: Address) -> None:
    spans = [(0, 7), (5, 12), (10, 16)]  # some records are appended by two heads
    heads = [started(APPENDS, str(folder), str(begin), str(end)) for begin, end in spans]
    seen = []
    while any(head.poll() is None for head in heads):
        seen.append(len(RecordStore(folder).read()))
    assert [head.returncode for head in heads] == [0, 0, 0]
    assert seen == sorted(seen), "a record that was seen once is never missing"
    store = RecordStore(folder)
    assert [record.seed for record in store.read()] == list(range(16))
    store.compact()
    assert store.read_table(["seed"]).num_rows == 16
    assert len(keys(server, folder)) == 1


@pytest.mark.parametrize("where", [b"PAR1", rb"POST /\S*uploadId="], ids=["data", "end"])
def test_a_head_killed_in_the_middle_of_an_upload_leaves_nothing(server: S3, folder: Address, where: bytes) -> None:
    store = RecordStore.create(folder)
    store.append(example_record(0))
    before = keys(server, folder)
    relay = Relay(server.endpoint, where.decode())
    head = started(APPENDS_A_LARGE_ONE, str(S3(relay.endpoint).folder(folder.base.partition(f"{BUCKET}/")[2])))
    assert relay.stopped.wait(60)
    head.kill()
    head.wait()
    relay.close()
    time.sleep(0.5)
    assert keys(server, folder) == before
    assert store.read() == [example_record(0)]
    again = started(APPENDS_A_LARGE_ONE, str(folder))
    assert again.wait() == 0
    assert store.read() == [example_record(0), large_record()]


@pytest.mark.parametrize(
    ("at", "times"),
    [(rb"PAR1", 1), (rb"POST /\S*uploadId=", 1), (rb"DELETE /\S*record-", 1), (rb"DELETE /\S*record-", 2)],
    ids=["data", "end", "first-delete", "second-delete"],
)
def test_a_merge_killed_anywhere_neither_loses_nor_doubles_a_record(
    server: S3, folder: Address, at: bytes, times: int
) -> None:
    store, records = RecordStore.create(folder), [example_record(index) for index in range(4)]
    for record in records:
        store.append(record)
    relay = Relay(server.endpoint, at.decode(), times)
    head = started(COMPACTS, str(S3(relay.endpoint).folder(folder.base.partition(f"{BUCKET}/")[2])))
    assert relay.stopped.wait(60)
    head.kill()
    head.wait()
    relay.close()
    time.sleep(0.5)
    deletes = at.startswith(b"DELETE")
    assert len(keys(server, folder)) == (4 + 1 - (times - 1) if deletes else 4)
    assert store.read() == records
    assert store.read_table(["seed"]).num_rows == 4
    store.compact()
    assert (len(keys(server, folder)), store.read()) == (1, records)


def test_a_proof_of_writing_that_a_killed_head_left_is_removed_once_it_is_old(server: S3, folder: Address) -> None:
    store = RecordStore.create(folder)
    store.append(example_record(0))
    left = f"{folder.base.removeprefix('s3://')}/{TEMPORARY_PREFIX}left{TEMPORARY_SUFFIX}"
    with server.files.open_output_stream(left) as stream:
        stream.write(b"x")
    store.compact()
    assert (len(keys(server, folder)), store.read()) == (2, [example_record(0)])
    store.compact(stale_seconds=-1.0)
    assert (len(keys(server, folder)), store.read()) == (1, [example_record(0)])


def test_what_is_no_record_at_an_address_is_named(server: S3, folder: Address) -> None:
    store = RecordStore.create(folder)
    path = folder.base.removeprefix("s3://")
    strangers = {
        "x.parquet": "x.parquet.* cannot be read as Parquet .*; move it elsewhere",
        "notes.txt": "must hold only Parquet files, but .*notes.txt.* is no such file; move it elsewhere",
    }
    for name, sentence in strangers.items():
        with server.files.open_output_stream(f"{path}/{name}") as stream:
            stream.write(b"hello")
        with pytest.raises(DatasetError, match=sentence):
            store.read()
        server.files.delete_file(f"{path}/{name}")


def one_sentence(told: pytest.ExceptionInfo[DatasetError]) -> bool:
    return "\n" not in str(told.value) and len(str(told.value)) < 420 and str(told.value).endswith(".")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("foo://x/y", r"at an address that pyarrow\.fs knows, such as s3://.*; foo://x/y is neither \(Unrecognized"),
        ("s3://bucket/x?region=a&bogus=1", r"is neither \(Unexpected query parameter in S3 URI"),
        ("hdfs://nowhere:1/x", r"lib(jvm|hdfs).*; this machine cannot use such an address; name another\.$"),
    ],
)
def test_an_address_of_no_file_system_is_refused(address: str, sentence: str) -> None:
    for use in (RecordStore(Address.parse(address)).read, lambda: RecordStore.create(Address.parse(address))):
        with pytest.raises(DatasetError, match=sentence) as told:
            use()
        assert one_sentence(told)


def test_a_bucket_that_is_not_there_is_refused(server: S3) -> None:
    missing = Address("s3://elsewhere/records", server.options.replace("&allow_bucket_creation=true", ""))
    for use in (RecordStore(missing).read, lambda: RecordStore.create(missing)):
        with pytest.raises(
            DatasetError, match=r"elsewhere.*(bucket does not exist|NO_SUCH_BUCKET).*; make the bucket first"
        ) as told:
            use()
        assert one_sentence(told)


def test_credentials_that_are_not_known_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in credentials().items():
        monkeypatch.setenv(name, value)
    with s3_server(tmp_path / "log") as strict:
        strict.ask("/moto-api/reset-auth", b"0")  # from now on the server checks them
        address = Address(f"s3://{BUCKET}/x", strict.options)
        for use in (RecordStore(address).read, lambda: RecordStore.create(address)):
            with pytest.raises(DatasetError, match=r"; give credentials as the tools of its provider read") as told:
                use()
            assert one_sentence(told)


def test_without_a_network_it_is_told_within_seconds() -> None:
    nobody = Address("s3://bucket/x", "endpoint_override=127.0.0.1:9&scheme=http&region=x")
    begin = time.monotonic()
    with pytest.raises(DatasetError, match=r"NETWORK_CONNECTION.*; check the network and the address\.$") as told:
        RecordStore.create(nobody)
    assert one_sentence(told)
    assert time.monotonic() - begin < 60


def test_who_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LOOK_SECONDS", 1.0)
    monkeypatch.setattr(remote, "TRANSFER_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        address = Address("s3://bucket/x", f"endpoint_override=127.0.0.1:{port}&scheme=http&region=x")
        for use in (RecordStore(address).read, lambda: RecordStore.create(address)):
            with pytest.raises(DatasetError, match=r"it does not answer within 1 s; check the network") as told:
                use()
            assert one_sentence(told)


def test_an_error_of_pyarrow_of_any_kind_is_an_error_of_a_file() -> None:
    """Azure's file system raises such an error without credentials."""

    def ask() -> None:
        raise pa.ArrowException("Unknown error: Check for Hierarchical Namespace support failed")

    with pytest.raises(OSError, match="Hierarchical Namespace"):
        remote._within(5.0, ask)
    with pytest.raises(pa.ArrowException):
        remote._within(5.0, ask, (pa.ArrowException,))

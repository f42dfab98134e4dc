"""Records that come block by block, read by Ray Data, so that they need not all be in memory.

A block is made into arrays where it is read, in Ray's tasks; only those come here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from autosync.dataset.files import read_encoded, with_bytes
from autosync.dataset.parquet import rows_of, values_of, with_own_texts
from autosync.dataset.quiet_ray import quietly
from autosync.dataset.schema import RecordReader
from autosync.dataset.store import RecordStore
from autosync.errors import DatasetError
from autosync.spec import RuntimeRecord
from autosync.spec.address import Place, absolute, place_of

if TYPE_CHECKING:
    import ray.data

ROWS = 512
"""Rows of a block."""

READ_ATTEMPTS = 5

Arrays = Mapping[str, npt.NDArray[Any]]


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a file, in its order."""

    table: pa.Table
    where: str

    def __len__(self) -> int:
        return len(self.table)

    def values(self, column: str) -> list[Any]:
        return values_of(self.table.column(column))

    @cached_property
    def records(self) -> list[RuntimeRecord]:
        """The records. Raises `DatasetError` when a row breaks a rule of records."""
        reader = RecordReader()
        return [reader.record(row, self.where) for row in rows_of(self.table)]

    def take(self, places: Sequence[int]) -> Rows:
        """Those at `places`, in that order, with their own texts alone: a file's dictionaries hold those of all."""
        return Rows(with_own_texts(self.table.take(pa.array(places, pa.int64()))), self.where)

    def packed(self) -> bytes:
        """The rows as bytes, for `unpacked`."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return bytes(sink.getvalue())

    @classmethod
    def unpacked(cls, packed: bytes, where: str) -> Rows:
        return cls(pa.ipc.open_stream(packed).read_all(), where)


class MergedError(DatasetError):
    """Files were merged by another process while they were streamed."""


Made = Callable[[Rows], Arrays]
"""Makes arrays of a block, none of them of Python's objects."""


@final
@dataclass(frozen=True)
class Share:
    """Every `of`-th block, from the one with this number on: what a process of several reads."""

    number: int = 0
    of: int = 1


ALL = Share()


def stored_bytes(directory: Place) -> int:
    """How large the files of records in `directory` are together."""
    return sum(size for _, size in with_bytes(directory))


def streamed(directory: Place, made: Made, columns: Sequence[str] | None = None) -> Iterator[Arrays]:
    """What `made` makes of each block of the records in `directory`, file after file, in one order always.

    A record may come twice, as in the files. Raises `DatasetError`, as readers of the files do.
    """
    import ray.exceptions

    try:
        with quietly(in_order=True):
            yield from arrays_in(blocks_of(directory, made, columns=columns))
    except (FileNotFoundError, ray.exceptions.RayError) as error:
        if "FileNotFound" in f"{type(error).__name__}{error}":
            raise MergedError(f"Files in {directory} were merged while they were read; run it again.") from None
        for path in RecordStore(directory).current_files():  # Ray's error is pages long: read what failed here
            for rows in _rows(path, columns, ALL, 0):
                made(rows)
        raise


def read_arrays(directory: Place, made: Made, columns: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """All that `streamed` yields, joined by name; it starts over when another process merges files meanwhile."""
    blocks = _attempted(directory, lambda: list(streamed(directory, made, columns)))
    return {name: np.concatenate([block[name] for block in blocks]) for name in (blocks[0] if blocks else ())}


def records_with_ids(directory: Place, ids: Collection[str]) -> list[RuntimeRecord]:
    """The records of those ids, in the order of their ids. Raises as `read_arrays`, and when a row is no record."""
    wanted = frozenset(ids)

    def chosen(rows: Rows) -> Arrays:
        places = [place for place, each in enumerate(rows.values("record_id")) if each in wanted]
        return {"table": np.frombuffer(rows.take(places).packed() if places else b"", dtype=np.uint8)}

    found: dict[str, RuntimeRecord] = {}
    for block in _attempted(directory, lambda: list(streamed(directory, chosen))):
        if len(block["table"]):
            rows = Rows.unpacked(block["table"].tobytes(), str(directory))
            found |= dict(zip(rows.values("record_id"), rows.records, strict=True))
    return [found[each] for each in sorted(found)]


def _attempted(directory: Place, read: Callable[[], list[Arrays]]) -> list[Arrays]:
    for _ in range(READ_ATTEMPTS):
        try:
            return read()
        except MergedError:
            continue
    raise DatasetError(f"Files in {directory} keep vanishing while they are read; stop what deletes them.")


def blocks_of(
    directory: Place, made: Made, share: Share = ALL, columns: Sequence[str] | None = None
) -> ray.data.Dataset:
    """A lazy dataset of what `made` makes of each block of the share, for `arrays_in`."""
    import ray.data

    names = [str(absolute(path)) for path in RecordStore(directory).current_files()]
    if not names:
        raise DatasetError(f"Records are streamed from files, but {directory} has none; run a trial first.")
    # A block a file from the beginning: to part them later would take a processor, which may never be free.
    items = [{"path": name, "number": number} for number, name in enumerate(names)]
    listed = ray.data.from_items(items, override_num_blocks=len(names))

    def read(batch: dict[str, npt.NDArray[Any]]) -> Iterator[pa.Table]:
        for name, number in zip(batch["path"].tolist(), batch["number"].tolist(), strict=True):
            for rows in _rows(place_of(name), columns, share, number):
                packed = BytesIO()
                np.savez(packed, **made(rows))  # type: ignore[arg-type]
                yield pa.table({"packed": pa.array([packed.getvalue()], pa.large_binary())})

    # Only this node has to have the files.
    here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    return listed.map_batches(
        read, batch_size=1, batch_format="numpy", label_selector=here, num_cpus=0, concurrency=_tasks()
    )


def arrays_in(dataset: Any) -> Iterator[Arrays]:
    """The arrays of each block that `blocks_of` gave."""
    for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1):
        for packed in batch.column("packed"):
            with np.load(BytesIO(packed.as_py()), allow_pickle=False) as arrays:
                yield dict(arrays)


def _tasks() -> int:
    """Files read side by side: each takes memory, and beyond the processors nothing is gained."""
    import ray

    return max(1, int(ray.cluster_resources().get("CPU", 1)) // 2)


def _rows(path: Place, columns: Sequence[str] | None, share: Share, number: int) -> Iterator[Rows]:
    """The blocks of a file that are of the share, the file being this one of all."""
    table = read_encoded(path, columns=columns)
    for block, begin in enumerate(range(0, len(table), ROWS)):
        if (block + number) % share.of == share.number:
            yield Rows(table.slice(begin, ROWS), str(path))

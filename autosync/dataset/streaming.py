"""Records in blocks, read by Ray Data, so that they need not fit into memory.

Ray's tasks turn each block into arrays where it is read; only the arrays are returned to this process.
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
"""Rows per block."""

READ_ATTEMPTS = 5

Arrays = Mapping[str, npt.NDArray[Any]]


@final
@dataclass(frozen=True, eq=False)
class RowBlock:
    """A block of rows of a file, in the file's order."""

    table: pa.Table
    where: str
    """The file's name, for errors."""

    def __len__(self) -> int:
        return len(self.table)

    def values(self, column: str) -> list[Any]:
        return values_of(self.table.column(column))

    @cached_property
    def records(self) -> list[RuntimeRecord]:
        """The records. Raises `DatasetError` if a row breaks a rule of records."""
        reader = RecordReader()
        return [reader.record(row, self.where) for row in rows_of(self.table)]

    def take(self, places: Sequence[int]) -> RowBlock:
        """Return the rows at `places`, in that order, with only their own texts, because a file's dictionaries hold all
        texts.
        """
        return RowBlock(with_own_texts(self.table.take(pa.array(places, pa.int64()))), self.where)

    def to_bytes(self) -> bytes:
        """Return the rows as bytes, for `from_bytes`."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, packed: bytes, where: str) -> RowBlock:
        return cls(pa.ipc.open_stream(packed).read_all(), where)


class MergedError(DatasetError):
    """Another process merged files while they were streamed."""


MakeArrays = Callable[[RowBlock], Arrays]
"""A function that turns a block into arrays, none of them of Python objects."""


@final
@dataclass(frozen=True)
class BlockShare:
    """Every `of`-th block from the block `number` on: the part that one of several processes reads."""

    number: int = 0
    of: int = 1


ALL = BlockShare()


def total_bytes(directory: Place) -> int:
    """Return the total size of the files of records in `directory`."""
    return sum(size for _, size in with_bytes(directory))


def stream_blocks(directory: Place, make: MakeArrays, columns: Sequence[str] | None = None) -> Iterator[Arrays]:
    """Yield the arrays that `make` returns for each block of the records in `directory`, always in the same order.

    Duplicates in the files are not removed. Raises `DatasetError`, as readers of the files do.
    """
    import ray.exceptions

    try:
        with quietly(in_order=True):
            yield from arrays_in(blocks_of(directory, make, columns=columns))
    except (FileNotFoundError, ray.exceptions.RayError) as error:
        if "FileNotFound" in f"{type(error).__name__}{error}":
            raise MergedError(f"Files in {directory} were merged while they were read; run it again.") from None
        for path in RecordStore(directory).current_files():  # Ray's error is pages long: repeat the read here
            for rows in _rows(path, columns, ALL, 0):
                make(rows)
        raise


def read_arrays(directory: Place, make: MakeArrays, columns: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of `stream_blocks`, concatenated by name. Starts over if another process merges files
    meanwhile.
    """
    blocks = _retry(directory, lambda: list(stream_blocks(directory, make, columns)))
    return {name: np.concatenate([block[name] for block in blocks]) for name in (blocks[0] if blocks else ())}


def records_with_ids(directory: Place, ids: Collection[str]) -> list[RuntimeRecord]:
    """Return the records with these ids, in the order of the ids. Raises the errors of `read_arrays` and of
    `Rows.records`.
    """
    wanted = frozenset(ids)

    def choose(rows: RowBlock) -> Arrays:
        places = [place for place, identity in enumerate(rows.values("record_id")) if identity in wanted]
        return {"table": np.frombuffer(rows.take(places).to_bytes() if places else b"", dtype=np.uint8)}

    records: dict[str, RuntimeRecord] = {}
    for block in _retry(directory, lambda: list(stream_blocks(directory, choose))):
        if len(block["table"]):
            rows = RowBlock.from_bytes(block["table"].tobytes(), str(directory))
            records |= dict(zip(rows.values("record_id"), rows.records, strict=True))
    return [records[identity] for identity in sorted(records)]


def _retry(directory: Place, read: Callable[[], list[Arrays]]) -> list[Arrays]:
    for _ in range(READ_ATTEMPTS):
        try:
            return read()
        except MergedError:
            continue
    raise DatasetError(f"Files in {directory} keep vanishing while they are read; stop what deletes them.")


def blocks_of(
    directory: Place, make: MakeArrays, share: BlockShare = ALL, columns: Sequence[str] | None = None
) -> ray.data.Dataset:
    """Return a lazy dataset of the results of `make` for each block of the share, for `arrays_in`."""
    import ray.data

    names = [str(absolute(path)) for path in RecordStore(directory).current_files()]
    if not names:
        raise DatasetError(f"Streaming needs files of records, but {directory} has none; run a trial first.")
    # Create one block per file now, because splitting blocks later would need a CPU, which may never become free.
    items = [{"path": name, "number": number} for number, name in enumerate(names)]
    listed = ray.data.from_items(items, override_num_blocks=len(names))

    def read(batch: dict[str, npt.NDArray[Any]]) -> Iterator[pa.Table]:
        for name, number in zip(batch["path"].tolist(), batch["number"].tolist(), strict=True):
            for rows in _rows(place_of(name), columns, share, number):
                packed = BytesIO()
                np.savez(packed, **make(rows))  # type: ignore[arg-type]
                yield pa.table({"packed": pa.array([packed.getvalue()], pa.large_binary())})

    # Run on this node, because other nodes may lack the files.
    this_node = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    return listed.map_batches(
        read, batch_size=1, batch_format="numpy", label_selector=this_node, num_cpus=0, concurrency=_tasks()
    )


def arrays_in(dataset: Any) -> Iterator[Arrays]:
    """Yield the arrays of each block in a dataset of `blocks_of`."""
    for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1):
        for packed in batch.column("packed"):
            with np.load(BytesIO(packed.as_py()), allow_pickle=False) as arrays:
                yield dict(arrays)


def _tasks() -> int:
    """Return the number of files to read in parallel. Each file takes memory, and more tasks than CPUs gain no time."""
    import ray

    return max(1, int(ray.cluster_resources().get("CPU", 1)) // 2)


def _rows(path: Place, columns: Sequence[str] | None, share: BlockShare, number: int) -> Iterator[RowBlock]:
    """Yield the blocks of the share in a file; `number` is the file's index among all files."""
    table = read_encoded(path, columns=columns)
    for block, begin in enumerate(range(0, len(table), ROWS)):
        if (block + number) % share.of == share.number:
            yield RowBlock(table.slice(begin, ROWS), str(path))

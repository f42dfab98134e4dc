"""Thrift's compact protocol, in which Parquet writes what it says of its data: structs, read without knowing them.

A struct's fields follow each other, each with its number, as a difference to that before it, and its kind; integers are
zigzag varints. Nothing else reads damaged ones safely: asked for a field that a damaged footer lacks, pyarrow ends the
process.
"""

from typing import Any, Final, final

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET = range(11)
STRUCT = 12
"""Kinds of values, by the protocol's numbers; 11 is a map, which Parquet has none of."""

MOST_DEPTH = 16
"""The most structs and lists within each other."""

Struct = dict[tuple[int, int], Any]
"""Values by the number and the kind of their field: a field of another kind than readers know is none to them."""


class CompactError(ValueError):
    """The bytes are no struct."""


def read_struct(data: bytes) -> tuple[Struct, int]:
    """The struct that `data` begins with, and how many bytes it has. Raises `CompactError`, and `IndexError` when it
    does not end within `data`."""
    reader = _Reader(data)
    return reader.struct(0), reader.at


@final
class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data: Final = data
        self.at = 0

    def struct(self, depth: int) -> Struct:
        found: Struct = {}
        field = 0
        while (head := self._byte()) & 15 != STOP:
            field = field + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            found[field, kind] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth + 1)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise CompactError("what it says of its data is nested too deeply")
        if kind in (I16, I32, I64):
            return self._integer()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct(depth)
        if kind in (LIST, SET):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind == DOUBLE:
            return self._bytes(8)
        raise CompactError("what it says of its data is of no known kind")

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise CompactError("what it says of its data holds a number of over 64 bits")
        return value | byte << shift

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise IndexError
        return self.data[self.at - count : self.at]

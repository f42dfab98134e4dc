"""Thrift's compact protocol, which Parquet uses for its metadata: reads structs without knowing their definitions.

A struct is a sequence of fields. Each has its number, as the difference from the previous field's, and its kind;
integers are zigzag varints. This reader exists because it is safe with damaged input: pyarrow ends the process when a
damaged footer lacks a field.
"""

from typing import Any, Final, final

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET = range(11)
STRUCT = 12
"""Kinds of values, by the protocol's numbers. Kind 11 is a map, which Parquet does not use."""

MOST_DEPTH = 16
"""The deepest nesting of structs and lists."""

Struct = dict[tuple[int, int], Any]
"""Values by the number and the kind of their field. Readers ignore a field of an unexpected kind."""


class CompactError(ValueError):
    """The bytes are not a struct."""


def read_struct(data: bytes) -> tuple[Struct, int]:
    """Read the struct at the beginning of `data`, and return it with its length in bytes.

    Raises `CompactError`, and `IndexError` if the struct does not end within `data`.
    """
    reader = _Reader(data)
    return reader.struct(0), reader.at


@final
class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data: Final = data
        self.at = 0

    def struct(self, depth: int) -> Struct:
        values: Struct = {}
        field = 0
        while (head := self._byte()) & 15 != STOP:
            field = field + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            values[field, kind] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth + 1)
        return values

    def _value(self, kind: int, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise CompactError("its metadata is nested too deeply")
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
        raise CompactError("its metadata has a value of an unknown kind")

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise CompactError("its metadata has a number of over 64 bits")
        return value | byte << shift

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise IndexError
        return self.data[self.at - count : self.at]

"""Makes TensorFlow's servers listen at one address instead of on all interfaces.

TensorFlow binds its gRPC servers to the wildcard address, a constant in its source, even if the cluster definition
names another address. Such a server reads and writes files for everyone who connects. Therefore, while a server
starts, the entries for `bind` in the jump tables of TensorFlow's libraries point to a function of this module, which
binds wildcard sockets to the wanted address. This works on Linux with glibc. On other systems, or if a library's tables
cannot be read, the server listens where TensorFlow chooses, and `listens_on_all_interfaces` returns True.
"""

import ctypes
import errno
import mmap
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_DYNAMIC = 2
_STRINGS, _SYMBOLS, _RELOCATIONS, _RELOCATIONS_BYTES, _CALLS, _CALLS_BYTES = 5, 6, 7, 8, 23, 2
_STRINGS_BYTES = 10
_RELOCATION = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_SYMBOL = np.dtype([("name", "<u4"), ("rest", "V20")])
# The numbers are from elf.h: a kind of segment, tags of its entries, and `Elf64_Rela` and `Elf64_Sym`.

_NAME = b"bind\0"
_Bind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, use_errno=True)

_LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""


class _Segment(ctypes.Structure):
    """`Elf64_Phdr`."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("offset", "address", "physical", "file_bytes", "bytes", "alignment")),
    )


class _Library(ctypes.Structure):
    """The beginning of `struct dl_phdr_info`."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("path", ctypes.c_char_p),
        ("segments", ctypes.POINTER(_Segment)),
        ("segment_count", ctypes.c_uint16),
    )


_Visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p)


@contextmanager
def listening_at(address: str, folder: Path) -> Iterator[None]:
    """In the block, let the libraries in `folder` bind their wildcard sockets to `address` instead."""
    if not sys.platform.startswith("linux"):
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def bind(descriptor: int, name: int, length: int) -> int:
        port = _wildcard_port(ctypes.string_at(name, length))
        if port is None:
            status: int = libc.bind(descriptor, ctypes.c_void_p(name), ctypes.c_uint32(length))
            return status
        try:
            _bind(descriptor, address, port)
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EADDRNOTAVAIL)
            return -1
        return 0

    replacement = _Bind(bind)
    try:
        slots = [slot for library in _libraries(libc, folder) for slot in _slots(*library)]
    except (
        AttributeError,
        LookupError,
        ValueError,
    ):  # the C library lacks the function, or the tables have another form
        slots = []
    originals = [slot.value for slot in slots]
    for slot in slots:
        slot.value = ctypes.cast(replacement, ctypes.c_void_p).value or 0
    try:
        yield
    finally:
        for slot, original in zip(slots, originals, strict=True):
            slot.value = original


def listens_on_all_interfaces(port: int) -> bool:
    """Whether a socket of this network namespace listens at `port` of the wildcard address; True without /proc."""
    tables = [table for table in (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6")) if table.exists()]
    for table in tables:
        for _, local, _, state, *_ in map(str.split, table.read_text(encoding="ascii").splitlines()[1:]):
            host, _, number = local.partition(":")
            if state == _LISTENS and int(number, 16) == port and not int(host, 16):
                return True
    return not tables


def _wildcard_port(name: bytes) -> int | None:
    """The port of a `struct sockaddr` with a wildcard IP address; None for any other socket address."""
    family = int.from_bytes(name[:2], sys.byteorder)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return None
    host = name[4:8] if family == socket.AF_INET else name[8:24].removeprefix(_IPV4)
    return None if any(host) else int.from_bytes(name[2:4], "big")


_IPV4 = bytes(10) + b"\xff\xff"
"""The beginning of an IPv4 address that is written as an IPv6 address."""


def _bind(descriptor: int, address: str, port: int) -> None:
    """Bind the socket to `address`. Raises `OSError`."""
    with socket.socket(fileno=os.dup(descriptor)) as bound:
        infos = socket.getaddrinfo(address, port, bound.family, socket.SOCK_STREAM, 0, socket.AI_V4MAPPED)
        bound.bind(infos[0][4])


def _libraries(libc: Any, folder: Path) -> list[tuple[int, dict[int, int]]]:
    """The base addresses of the loaded libraries in `folder`, with the entries of their dynamic segments."""
    libraries: list[tuple[int, dict[int, int]]] = []

    def visit(library: Any, _bytes: int, _data: int) -> int:
        base, path = library.contents.base, os.fsdecode(library.contents.path or b"")
        if Path(path).is_relative_to(folder):
            segments = library.contents.segments[: library.contents.segment_count]
            for segment in segments:
                if segment.kind == _DYNAMIC:
                    pairs = _array(base + segment.address, segment.bytes // 16 * 2, np.dtype("<u8")).reshape(-1, 2)
                    libraries.append((base, {int(tag): int(value) for tag, value in pairs}))
        return 0

    libc.dl_iterate_phdr(_Visit(visit), None)
    return libraries


def _slots(base: int, entries: dict[int, int]) -> list[ctypes.c_uint64]:
    """The words of a library that hold the address of `bind`."""
    slots: list[ctypes.c_uint64] = []
    symbol_table = _absolute(entries[_SYMBOLS], base)
    strings = _array(_absolute(entries[_STRINGS], base), entries[_STRINGS_BYTES], np.dtype("u1"))
    for start, size in ((_CALLS, _CALLS_BYTES), (_RELOCATIONS, _RELOCATIONS_BYTES)):
        count = entries.get(size, 0) // _RELOCATION.itemsize
        if not count:
            continue
        relocations = _array(_absolute(entries[start], base), count, _RELOCATION)
        relocations = relocations[relocations["symbol"] != 0]
        symbols = _array(symbol_table, int(relocations["symbol"].max(initial=0)) + 1, _SYMBOL)
        offsets = symbols["name"][relocations["symbol"]].astype(np.int64)
        is_bind = np.ones(len(offsets), bool)
        for index, character in enumerate(_NAME):
            offsets_left = offsets[is_bind] + index
            is_bind[is_bind] = strings[offsets_left] == character
        slots += [_writable(base + int(offset)) for offset in relocations["offset"][is_bind]]
    return slots


def _absolute(value: int, base: int) -> int:
    """The address of a table; on most machines glibc has already added the base."""
    return value if value >= base else base + value


def _writable(address: int) -> ctypes.c_uint64:
    """Make the page of `address` writable, because a library may be linked read-only, and return the word there."""
    page = mmap.PAGESIZE
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(address // page * page), ctypes.c_size_t(page), protection)
    return ctypes.c_uint64.from_address(address)


def _array(address: int, count: int, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """The memory at `address` as an array of `count` items."""
    memory = (ctypes.c_char * (count * kind.itemsize)).from_address(address)
    return np.frombuffer(memoryview(memory).cast("B"), kind)

"""The protobuf messages of the dataset's files, defined in code, without generated files and without TensorFlow.

`GraphItem` and `Strategy` have the field numbers of AutoDist's published definitions (Apache-2.0) as of 2020, when the
dataset was collected. For TensorFlow's `GraphDef` and `VariableDef`, only the fields that are read are defined, because
protobuf skips others. All messages live in a pool separate from TensorFlow's.
"""

from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from autosync.errors import DatasetError, SpecError
from autosync.spec import STATE
from autosync.spec import read_bytes as read_within

PACKAGE = "autosync.imported"
FILE = "autosync_imported.proto"

Field = tuple[str, int, str]
"""Name, number, and type: a scalar's or a message's name, preceded by *repeated*, or by *oneof*'s name with a colon."""

MESSAGES: dict[str, tuple[Field, ...]] = {
    "Any": (("type_url", 1, "string"), ("value", 2, "bytes")),
    "GraphItem": (("graph_def", 1, "Any"), ("grad_target_pairs", 2, "map string string"), ("info", 3, "Info")),
    "Info": (
        ("variables", 1, "repeated Any"),
        ("table_initializers", 2, "repeated string"),
        ("savers", 3, "repeated Any"),
    ),
    "GraphDef": (("node", 1, "repeated NodeDef"),),
    "NodeDef": (
        ("name", 1, "string"),
        ("op", 2, "string"),
        ("input", 3, "repeated string"),
        ("attr", 5, "map string AttrValue"),
    ),
    "AttrValue": (("type", 6, "int32"), ("shape", 7, "TensorShape")),
    "TensorShape": (("dim", 2, "repeated Dim"), ("unknown_rank", 3, "bool")),
    "Dim": (("size", 1, "int64"),),
    "VariableDef": (("variable_name", 1, "string"), ("trainable", 7, "bool")),
    "Strategy": (
        ("id", 1, "string"),
        ("path", 2, "string"),
        ("node_config", 3, "repeated Node"),
        ("graph_config", 4, "GraphConfig"),
    ),
    "Node": (
        ("var_name", 1, "string"),
        ("PSSynchronizer", 2, "synchronizer: PSSynchronizer"),
        ("AllReduceSynchronizer", 3, "synchronizer: AllReduceSynchronizer"),
        ("partitioner", 4, "string"),
        ("part_config", 5, "repeated Node"),
    ),
    "GraphConfig": (("replicas", 1, "repeated string"),),
    "PSSynchronizer": (
        ("reduction_destination", 1, "string"),
        ("local_replication", 2, "bool"),
        ("sync", 3, "bool"),
        ("staleness", 4, "int32"),
    ),
    "AllReduceSynchronizer": (("spec", 1, "int32"), ("compressor", 2, "int32"), ("group", 3, "int32")),
}
"""Every message by name. Enumerations are read as their numbers on the wire."""


def message_class(name: str) -> Any:
    """Return the class of the message called `name`, one of `MESSAGES`."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add(message, field)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _add(message: descriptor_pb2.DescriptorProto, field: Field) -> None:
    name, number, kind = field
    oneof, _, rest = kind.rpartition(": ")
    *words, last = rest.split()
    added = message.field.add(name=name, number=number, label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
    if words[:1] == ["map"]:
        entry = "".join(word.capitalize() for word in name.split("_")) + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        _add(nested, ("key", 1, words[1]))
        _add(nested, ("value", 2, last))
        last = f"{message.name}.{entry}"
    if words:
        added.label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    if oneof:
        if not message.oneof_decl:
            message.oneof_decl.add(name=oneof)
        added.oneof_index = 0
    scalar = getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{last.upper()}", None)
    if scalar is None:
        added.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
        added.type_name = f".{PACKAGE}.{last}"
    else:
        added.type = scalar


def read_bytes(file: Path) -> bytes:
    """Return the bytes in `file`. Raises `DatasetError`."""
    try:
        return read_within(file, str(file), STATE.size)
    except SpecError as error:
        raise DatasetError(str(error)) from None
    except OSError as error:
        raise DatasetError(f"{file} cannot be read: {error.strerror}; check the dataset's folder.") from None


def parse_message(data: bytes, name: str, where: object) -> Any:
    """Parse the message called `name` in `data`, which came from `where`. Raises `DatasetError`."""
    message = message_class(name)()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise DatasetError(f"{where} must hold a {name} of AutoDist, but cannot be parsed as one.") from None
    return message

"""Files in the public AutoSync dataset's layout, made from AutoDist's message definitions by hand.

The bytes are composed field by field, so that the tests compare the definitions in `messages` with the wire format, not
with themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["all_reduce", "graph_item", "node", "parameter_server", "strategy", "write_sample"]

TENSORFLOW = "type.googleapis.com/tensorflow."


def varint(number: int) -> bytes:
    out = bytearray()
    while True:
        number, low = number >> 7, number & 127
        out.append(low | (128 if number else 0))
        if not number:
            return bytes(out)


def number(field: int, value: int) -> bytes:
    """Encode a field with an integer. Like protobuf, omit the default value."""
    return varint(field << 3) + varint(value) if value else b""


def text(field: int, value: str | bytes) -> bytes:
    """Encode a field with text, bytes or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def _any(field: int, kind: str, message: bytes) -> bytes:
    return text(field, text(1, TENSORFLOW + kind) + text(2, message))


def _attribute(name: str, value: bytes) -> bytes:
    return text(5, text(1, name) + text(2, value))


def _shape(sizes: Sequence[int]) -> bytes:
    return text(7, b"".join(text(2, number(1, size)) for size in sizes))


def graph_item(
    variables: Mapping[str, Sequence[int]], sparse: Sequence[str] = (), dtype: int = 1, op: str = "VarHandleOp"
) -> bytes:
    """Return a `graph_item` of float32 variables in this order, among other nodes, with an integer that is not
    trained.
    """
    step = (
        text(1, "global_step")
        + text(2, "VarHandleOp")
        + _attribute("dtype", number(6, 9))
        + _attribute("shape", _shape([]))
    )
    nodes = [text(1, "images") + text(2, "Placeholder"), step]
    for name, sizes in reversed(variables.items()):
        attributes = _attribute("shape", _shape(sizes)) + _attribute("dtype", number(6, dtype))
        attributes += _attribute("value", text(8, b"\x08\x01"))  # a tensor, which is not read
        nodes.append(text(1, name) + text(2, op) + text(3, "images") + attributes)
    graph = b"".join(text(1, node) for node in nodes) + text(4, number(1, 175))
    pairs = b""
    for name in variables:
        gradient = f"grad/{name}"
        key = f"{gradient}/indices:0;{gradient}/values:0;{gradient}/shape:0" if name in sparse else f"{gradient}:0"
        pairs += text(2, text(1, key) + text(2, f"{name}:0"))
    definitions = (
        text(1, f"{name}:0") + text(2, f"{name}/Assign") + number(7, 1) for name in [*variables, "global_step"]
    )
    info = b"".join(_any(1, "VariableDef", definition) for definition in definitions) + text(2, "init_tables")
    return _any(1, "GraphDef", graph) + pairs + text(3, info)


def parameter_server(device: str, proxy: bool = False, sync: bool = True, staleness: int = 0) -> bytes:
    return text(2, text(1, device) + number(2, proxy) + number(3, sync) + number(4, staleness))


def all_reduce(group: int, compressor: int = 0, spec: int = 1) -> bytes:
    return text(3, number(1, spec) + number(2, compressor) + number(3, group))


def node(variable: str, synchronizer: bytes = b"", partitioner: str = "", parts: Sequence[bytes] = ()) -> bytes:
    """Encode a variable's decision; `parts` are the synchronizers of its shards."""
    data = text(1, f"{variable}:0") + synchronizer + (text(4, partitioner) if partitioner else b"")
    for index, part in enumerate(parts):
        data += text(5, text(1, f"{variable}/part_{index}:0") + part)
    return data


def strategy(nodes: Sequence[bytes], replicas: Sequence[str], name: str = "20200601T080115M902347") -> bytes:
    config = b"".join(text(1, replica) for replica in replicas)
    return text(1, name) + text(2, "/tmp/autodist") + b"".join(text(3, node) for node in nodes) + text(4, config)


def write_sample(
    cluster: Path,
    name: str,
    message: bytes,
    resources: str,
    seconds: Sequence[float] = (0.5, 0.25, 0.75),
    folder: str = "strategies",
) -> None:
    """Write a sample's three files, with the runtime as in the dataset's second version: YAML, here written as JSON."""
    files = {
        folder: message,
        "resource_spec": resources.encode(),
        "runtime": json.dumps({"average": sum(seconds) / max(len(seconds), 1), "runtime": list(seconds)}).encode(),
    }
    for kind, data in files.items():
        (cluster / kind).mkdir(parents=True, exist_ok=True)
        (cluster / kind / name).write_bytes(data)

"""Scalars as TensorBoard would read them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event

from autosync.tune.curves import SCALARS, SearchScalars
from tests.tune.records import found, record

__all__ = ["events_in", "scalars_in"]

HEADER = struct.Struct("<QI")
FOOTER_BYTES = 4


def events_in(file: Path) -> Iterator[Event]:
    """Event files are TFRecord: length and its checksum, contents, checksum of the contents."""
    contents, at = file.read_bytes(), 0
    while at < len(contents):
        length, _ = HEADER.unpack_from(contents, at)
        at += HEADER.size
        yield Event.FromString(contents[at : at + length])
        at += length + FOOTER_BYTES


def scalars_in(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of every scalar in the event files that lie in `directory` itself."""
    scalars: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(directory.glob("events.out.tfevents.*")):
        for event in events_in(file):
            for value in event.summary.value:
                scalars.setdefault(value.tag, []).append((event.step, round(value.simple_value, 6)))
    return scalars


def test_a_search_is_one_curve_over_its_trials(tmp_path: Path) -> None:
    first, second = found(2)
    scalars = SearchScalars(tmp_path, [record("parameter_server", [0.3])])
    scalars(record("byteps", [0.2]))
    scalars(record(first, outcome="lost"))
    scalars(record(first, [0.1], predicted_seconds=0.15))
    scalars(record(second, outcome="failed", predicted_seconds=0.4))
    scalars.close()
    assert scalars_in(tmp_path) == {
        "search/step_seconds": [(2, 0.2), (3, 0.1)],
        "search/predicted_seconds": [(3, 0.15), (4, 0.4)],
        "search/best_step_seconds": [(2, 0.2), (3, 0.1), (4, 0.1)],
        "search/best_baseline_step_seconds": [(2, 0.2), (3, 0.2), (4, 0.2)],
    }


def test_every_scalar_is_described() -> None:
    assert all(name.startswith("search/") and text.endswith(".") for name, text in SCALARS.items())

"""Draws a step: every worker's operations, and the traffic on its link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from xml.sax.saxutils import escape

from studies.by_hand.peers.tracing import Operation

__all__ = ["chrome_trace", "draw"]

COLOURS = {"forward": "#7fb3d5", "backward": "#1f618d", "update": "#c39bd3", "send": "#f5b041", "other": "#d5d8dc"}
WIDTH, LEFT, TOP, ROW, GAP, LINK = 1200, 90, 70, 26, 14, 54
BIN_NS = 4_000_000


def kind_of(name: str) -> str:
    """Return the kind of an operation: backward, forward, send, update or other."""
    if "/gradient_tape/" in name:
        return "backward"
    if "/forward/" in name:
        return "forward"
    if "Send" in name or "Recv" in name:
        return "send"
    return "update" if "Assign" in name else "other"


def chrome_trace(operations: Sequence[Sequence[Operation]], samples: Sequence[Any]) -> dict[str, Any]:
    """Return the object of a Chrome trace: a process per worker, and the Mbit/s of its link as counters."""
    events: list[dict[str, Any]] = []
    for worker, of_worker in enumerate(operations):
        events.append({"ph": "M", "pid": worker, "name": "process_name", "args": {"name": f"worker {worker}"}})
        for name, begin, end in of_worker:
            kind = kind_of(name)
            about = {"name": name.rpartition("/")[2], "cat": kind, "pid": worker, "tid": list(COLOURS).index(kind)}
            events.append({"ph": "X", "ts": begin / 1e3, "dur": (end - begin) / 1e3, **about, "args": {"op": name}})
        for at, down, up in _rates(samples, worker):
            events.append(
                {"ph": "C", "pid": worker, "name": "Mbit/s", "ts": at / 1e3, "args": {"sent": up, "received": down}}
            )
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def draw(title: str, operations: Sequence[Sequence[Operation]], samples: Sequence[Any], window: tuple[int, int]) -> str:
    """Return an SVG of the time from `window[0]` to `window[1]` (ns since 1970)."""
    begin, end = window
    inside = [
        [rate for rate in _rates(samples, worker) if begin <= rate[0] <= end] for worker in range(len(operations))
    ]
    most = max((max(down, up) for of_worker in inside for _, down, up in of_worker), default=1.0) or 1.0
    height = TOP + len(operations) * (2 * ROW + LINK + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="22" font-size="16">{escape(title)}: one step, {(end - begin) / 1e6:.0f} ms</text>',
        *_legend(),
    ]
    for worker, of_worker in enumerate(operations):
        y = TOP - 10 + worker * (2 * ROW + LINK + GAP)
        parts.append(f'<text x="10" y="{y + 18}">worker {worker}</text>')
        parts += _operations(of_worker, y, window)
        parts += _link(inside[worker], y + 2 * ROW + LINK - 6, most, window)
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> Iterator[str]:
    for number, (kind, colour) in enumerate(COLOURS.items()):
        x = 10 + 100 * number
        yield f'<rect x="{x}" y="34" width="12" height="12" fill="{colour}"/><text x="{x + 16}" y="44">{kind}</text>'
    yield '<text x="530" y="44">below: Mbit/s sent (filled) and received (line)</text>'


def _place(at: int, window: tuple[int, int]) -> float:
    """Return the horizontal position of a time."""
    begin, end = window
    return LEFT + (min(max(at, begin), end) - begin) * (WIDTH - LEFT - 20) / (end - begin)


def _operations(operations: Sequence[Operation], y: int, window: tuple[int, int]) -> Iterator[str]:
    """Draw passes in the upper row and all other operations in the lower row."""
    for name, start, stop in operations:
        if stop < window[0] or start > window[1]:
            continue
        kind = kind_of(name)
        row = y if kind in ("forward", "backward") else y + ROW
        x = _place(start, window)
        width = max(0.6, _place(stop, window) - x)
        yield f'<rect x="{x:.1f}" y="{row}" width="{width:.1f}" height="{ROW - 4}" fill="{COLOURS[kind]}"/>'


def _link(rates: Sequence[tuple[int, float, float]], base: int, most: float, window: tuple[int, int]) -> Iterator[str]:
    """Draw the traffic of one worker's link, above the line at `base`."""
    yield f'<text x="10" y="{base - LINK / 2 + 8}">link</text>'
    yield f'<text x="{LEFT - 6}" y="{base - LINK + 14}" text-anchor="end">{most:.0f}</text>'
    if not rates:
        return
    places = [_place(at, window) for at, _, _ in rates]
    heights = [(base - down / most * (LINK - 8), base - up / most * (LINK - 8)) for _, down, up in rates]
    sent = " ".join(f"{x:.1f},{up:.1f}" for x, (_, up) in zip(places, heights, strict=True))
    received = " ".join(f"{x:.1f},{down:.1f}" for x, (down, _) in zip(places, heights, strict=True))
    yield f'<polygon points="{places[0]:.1f},{base} {sent} {places[-1]:.1f},{base}" fill="#58d68d"/>'
    yield f'<polyline points="{received}" fill="none" stroke="#145a32" stroke-width="1"/>'


def _rates(samples: Sequence[Any], worker: int) -> Iterator[tuple[int, float, float]]:
    """Yield (ns, Mbit/s received, Mbit/s sent) for bins of `BIN_NS`."""
    last = None
    for at, of_hosts in samples:
        if last is None:
            last = (at, of_hosts[worker])
        elif at - last[0] >= BIN_NS:
            span = (at - last[0]) / 1e3
            down, up = ((new - old) * 8 / span for old, new in zip(last[1], of_hosts[worker], strict=True))
            yield at, down, up
            last = (at, of_hosts[worker])

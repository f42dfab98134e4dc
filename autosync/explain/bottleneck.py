"""The predicted step: its terms, and which one of them is the bottleneck."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from autosync.cost import Breakdown, Coefficients, breakdown
from autosync.explain.subject import Subject

__all__ = ["Term", "step_lines", "terms_of"]


class Term(NamedTuple):
    """Something a step waits for, busy for so many seconds."""

    what: str
    seconds: float


def step_lines(subject: Subject, coefficients: Coefficients) -> Iterator[str]:
    """The step's seconds, what they come from, the bottleneck, and what was measured."""
    parts = breakdown(subject.model, subject.cluster, subject.strategy, coefficients)
    timed = sum(record.timed for record in subject.records)
    by = (
        f"fitted to {timed} timed record{'s' * (timed != 1)}"
        if timed
        else "not fitted to this cluster: its processors' speed is assumed"
    )
    yield f"Predicted: {_ms(parts.step)} a step (closed form, {by})."
    if subject.measured:
        yield subject.measured
    terms = terms_of(subject, parts)
    busiest = terms[0]
    yield f"Bottleneck: {busiest.what}, busy for {_ms(busiest.seconds)}."
    yield f"What a step waits for; in part at the same time (overlap {coefficients.overlap:.2f}):"
    for term in terms:
        yield f"  {_ms(term.seconds):>10}  {term.what}"


def terms_of(subject: Subject, parts: Breakdown) -> list[Term]:
    """The busiest of each kind of resource and the fixed costs, the longest first; what takes no time is left out."""
    cluster = subject.cluster
    link, slowest = cluster.links[int(parts.links.argmax())], float(parts.links.max())
    node = cluster.nodes[int(parts.nodes.argmax())].name
    computing = cluster.nodes[int(parts.compute.argmax())].name
    server = cluster.server_devices[int(parts.servers.argmax())]
    where = f"the loopback of {link.source}" if link.source == link.target else f"link {link.source} > {link.target}"
    terms = [
        Term(where, slowest),
        Term(f"the processor of {node}, with messages, copies and sums", float(parts.nodes.max())),
        Term(f"server {server}, adding and updating", float(parts.servers.max())),
        Term(f"computing gradients on {computing}", float(parts.compute.max())),
        Term("computing gradients on a GPU", parts.gpu_compute),
        # A bucket whose stages follow one another leaves links idle; else it takes no longer than its link is busy.
        Term("the slowest bucket, stage by stage", parts.chain if parts.chain > 1.001 * slowest else 0.0),
        Term("the longest chain of messages, empty", parts.latency),
        Term("starting a step", parts.overhead),
    ]
    return sorted((term for term in terms if term.seconds > 0), key=lambda term: -term.seconds)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"

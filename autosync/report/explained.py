"""The explanation, line by line: decisions, bytes over links, the predicted step, and the nearest baseline."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autosync.baselines.nearest import Difference, Nearest, nearest_baseline
from autosync.cost import AnalyticSimulator, Breakdown, Coefficients, breakdown, traffic
from autosync.runs.subject import Subject
from autosync.spec import ClusterSpec, Link
from autosync.words.cluster import cluster_lines
from autosync.words.quantities import few_of, megabytes, model_in_words
from autosync.words.schedule import schedule_lines
from autosync.words.strategy import strategy_in_words

MOST_PHASES = 8
"""The most phases after the first whose steps are told."""


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
    yield f"Predicted{_in_first_phase(subject.cluster)}: {_ms(parts.step)} a step (closed form, {by})."
    yield from _later_phases(subject, coefficients)
    if subject.measured:
        yield subject.measured
    terms = terms_of(subject, parts)
    busiest = terms[0]
    yield f"Bottleneck: {busiest.what}, busy for {_ms(busiest.seconds)}."
    yield f"What a step waits for; in part at the same time (overlap {coefficients.overlap:.2f}):"
    for term in terms:
        yield f"  {_ms(term.seconds):>10}  {term.what}"


def _in_first_phase(cluster: ClusterSpec) -> str:
    return f" for phase 0 of 0 to {len(cluster.phase_starts) - 1}, by the first rates" if cluster.changes else ""


def _later_phases(subject: Subject, coefficients: Coefficients) -> Iterator[str]:
    """What a step takes in the phases after the first, where links change."""
    later = list(enumerate(subject.cluster.phase_starts))[1:]
    for phase, start in later[:MOST_PHASES]:
        seconds = breakdown(subject.model, subject.cluster.at(start), subject.strategy, coefficients).step
        yield f"  {_ms(seconds):>10}  in phase {phase}, from {start:g} s after the cluster is up"
    if len(later) > MOST_PHASES:
        yield f"  and {len(later) - MOST_PHASES} phases more"


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
        Term("the paced passes", parts.paced),
        # A bucket whose stages follow one another leaves links idle; else it takes no longer than its link is busy.
        Term("the slowest bucket, stage by stage", parts.chain if parts.chain > 1.001 * slowest else 0.0),
        Term("the longest chain of messages, empty", parts.latency),
        Term("starting a step", parts.overhead),
    ]
    return sorted((term for term in terms if term.seconds > 0), key=lambda term: -term.seconds)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{1e3 * seconds:.0f} ms"


MOST_LINKS = 16
MOST_DIFFERENCES = 6


def explained(subject: Subject) -> Iterator[str]:
    """Every line of the explanation for a terminal, without colours."""
    yield f"Strategy {subject.strategy.digest} on {len(subject.strategy.replicas)} replicas"
    yield from subject.notes
    yield model_in_words(subject.model)
    yield from cluster_lines(subject.cluster)
    yield from ("", "What it does")
    yield from _indented(strategy_in_words(subject.strategy, subject.model))
    lines = schedule_lines(subject.strategy, subject.cluster)
    if lines:
        yield from ("", "How all-reduces go")
        yield from _indented(lines)
    yield from ("", "What crosses in one step")
    yield from _indented(_link_lines(subject))
    simulator = AnalyticSimulator()
    simulator.fit(subject.records)
    yield from ("", "How long a step takes")
    yield from _indented(step_lines(subject, simulator.coefficients))
    yield from ("", "The nearest baseline")
    nearest = nearest_baseline(subject.strategy, subject.model, subject.cluster)
    yield from _indented(_nearest_lines(subject, nearest, simulator))


def _indented(lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _link_lines(subject: Subject) -> Iterator[str]:
    """A table of the links that carry anything, the busiest first."""
    found = traffic(subject.model, subject.cluster, subject.strategy)
    rows = [
        (1e3 * carried / link.bytes_per_second, carried, messages, link)
        for link, carried, messages in zip(
            subject.cluster.links, found.bytes.tolist(), found.messages.tolist(), strict=True
        )
        if carried
    ]
    if not rows:
        yield "Nothing: one process holds it all."
        return
    rows.sort(key=lambda row: -row[0])
    width = max(len(_link_text(link)) for *_, link in rows)
    yield f"{'link':<{width}}  {'bytes':>8}  {'messages':>8}  {'ms':>8}  at"
    for milliseconds, carried, messages, link in rows[:MOST_LINKS]:
        rate = f"{link.gbit_per_s.value:.3g} Gbit/s ({link.gbit_per_s.source})"
        name = _link_text(link)
        yield f"{name:<{width}}  {megabytes(carried):>8}  {messages:>8.4g}  {milliseconds:>8.3g}  {rate}"
    if len(rows) > MOST_LINKS:
        yield f"and {len(rows) - MOST_LINKS} links that are less busy"


def _link_text(link: Link) -> str:
    return f"within {link.source}" if link.source == link.target else f"{link.source} > {link.target}"


def _nearest_lines(subject: Subject, nearest: Nearest, simulator: AnalyticSimulator) -> Iterator[str]:
    count = len(subject.model.variables)
    if not nearest.differences:
        yield f"It is {nearest.label}: no decision differs."
        return
    logs = simulator.predict(subject.model, subject.cluster, [subject.strategy, nearest.strategy])
    speedup = math.exp(logs[1] - logs[0])
    yield (
        f"{nearest.label}, which decides {nearest.variables} of {count} variables otherwise; "
        f"predicted to be {speedup:.2f} x as fast as that."
    )
    for difference in nearest.differences[:MOST_DIFFERENCES]:
        yield _difference_line(subject, difference)
    rest = nearest.differences[MOST_DIFFERENCES:]
    if rest:
        yield f"and {sum(len(each.variables) for each in rest)} more variables in {len(rest)} other ways"


def _difference_line(subject: Subject, difference: Difference) -> str:
    names = sorted(difference.variables, key=lambda name: -subject.model.by_name[name].bytes)
    size = sum(subject.model.by_name[name].bytes for name in names)
    return f"{few_of(names)} ({megabytes(size)}): {difference.here}; there {difference.there}"

"""Explains a strategy line by line: its decisions, bytes over links, the predicted step, and the nearest baseline."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autosync.baselines.nearest import Difference, Nearest, nearest_baseline
from autosync.cost import AnalyticSimulator, Breakdown, Coefficients, breakdown, traffic
from autosync.report.overlap import overlap_lines, predict_overlap
from autosync.runs.explain_input import ExplainInput
from autosync.runs.tables import FittedTable
from autosync.spec import ClusterSpec, Link
from autosync.words.cluster import cluster_lines
from autosync.words.quantities import few_of, megabytes, model_in_words
from autosync.words.schedule import schedule_lines
from autosync.words.strategy import strategy_in_words

MOST_PHASES = 8
"""The maximum number of later phases whose steps are listed."""


class Term(NamedTuple):
    """A resource that a step waits for, and the seconds for which the resource is busy."""

    what: str
    seconds: float


def step_lines(explain_input: ExplainInput, coefficients: Coefficients) -> Iterator[str]:
    """Lines on the predicted step: its duration, its parts, its bottleneck, and measurements."""
    parts = breakdown(explain_input.model, explain_input.cluster, explain_input.strategy, coefficients)
    timed = sum(record.timed for record in explain_input.records)
    by = (
        f"fitted to {timed} timed record{'s' * (timed != 1)}"
        if timed
        else "not fitted to this cluster: its processors' speed is assumed"
    )
    yield f"Predicted{_in_first_phase(explain_input.cluster)}: {_ms(parts.step)} a step (closed form, {by})."
    yield from _later_phases(explain_input, coefficients)
    if explain_input.measured:
        yield explain_input.measured
    terms = terms_of(explain_input, parts)
    busiest = terms[0]
    yield f"Bottleneck: {busiest.what}, busy for {_ms(busiest.seconds)}."
    yield f"What a step waits for; in part at the same time (overlap {coefficients.overlap:.2f}):"
    for term in terms:
        yield f"  {_ms(term.seconds):>10}  {term.what}"


def _in_first_phase(cluster: ClusterSpec) -> str:
    return f" for phase 0 of 0 to {len(cluster.phase_starts) - 1}, by the first rates" if cluster.changes else ""


def _later_phases(explain_input: ExplainInput, coefficients: Coefficients) -> Iterator[str]:
    """Lines on the duration of a step in later phases, if the rates of links change."""
    later = list(enumerate(explain_input.cluster.phase_starts))[1:]
    for phase, start in later[:MOST_PHASES]:
        seconds = breakdown(
            explain_input.model, explain_input.cluster.at(start), explain_input.strategy, coefficients
        ).step
        yield f"  {_ms(seconds):>10}  in phase {phase}, from {start:g} s after the cluster is up"
    if len(later) > MOST_PHASES:
        yield f"  and {len(later) - MOST_PHASES} phases more"


def terms_of(explain_input: ExplainInput, parts: Breakdown) -> list[Term]:
    """The busiest resource of each kind and the fixed costs, the longest first; resources that are never busy are
    left out.
    """
    cluster = explain_input.cluster
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
        # If the stages of a bucket follow one another, links are idle in between; else the bucket takes no longer than
        # its link is busy.
        Term("the slowest bucket, stage by stage", parts.chain if parts.chain > 1.001 * slowest else 0.0),
        Term("the longest chain of messages, by latency alone", parts.latency),
        Term("starting a step", parts.overhead),
    ]
    return sorted((term for term in terms if term.seconds > 0), key=lambda term: -term.seconds)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{1e3 * seconds:.0f} ms"


INDENT = 2
"""Spaces before the lines of a section."""

MOST_LINKS = 16
MOST_DIFFERENCES = 6


def explanation_lines(explain_input: ExplainInput) -> Iterator[str]:
    """Every line of the explanation for a terminal, without colours."""
    yield f"Strategy {explain_input.strategy.digest} on {len(explain_input.strategy.replicas)} replicas"
    yield from explain_input.notes
    yield model_in_words(explain_input.model)
    yield from cluster_lines(explain_input.cluster)
    yield from ("", "What it does")
    yield from _indent(strategy_in_words(explain_input.strategy, explain_input.model))
    lines = schedule_lines(explain_input.strategy, explain_input.cluster)
    if lines:
        yield from ("", "How all-reduces go")
        yield from _indent(lines)
    yield from ("", "What crosses in one step")
    yield from _indent(_link_lines(explain_input))
    simulator = AnalyticSimulator()
    simulator.fit(explain_input.records)
    yield from ("", "How long a step takes")
    yield from _indent(step_lines(explain_input, simulator.coefficients))
    yield from ("", "How much passes hide")
    prediction = predict_overlap(
        explain_input.strategy, explain_input.model, explain_input.cluster, explain_input.records
    )
    yield from _indent(overlap_lines(prediction, explain_input.strategy, explain_input.records))
    yield from ("", "The nearest baseline")
    nearest = nearest_baseline(explain_input.strategy, explain_input.model, explain_input.cluster)
    yield from _indent(_nearest_lines(explain_input, nearest, simulator))


def _indent(lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    return (f"{' ' * INDENT}{line}" for line in lines)


def _link_lines(explain_input: ExplainInput) -> Iterator[str]:
    """A table of the links that carry messages, the busiest first."""
    carried_by_link = traffic(explain_input.model, explain_input.cluster, explain_input.strategy)
    rows = [
        (1e3 * carried / link.bytes_per_second, carried, messages, link)
        for link, carried, messages in zip(
            explain_input.cluster.links, carried_by_link.bytes.tolist(), carried_by_link.messages.tolist(), strict=True
        )
        if carried
    ]
    if not rows:
        yield "Nothing: one process holds it all."
        return
    rows.sort(key=lambda row: -row[0])
    table = FittedTable()
    table.words("link")
    table.numbers("bytes", "messages", "ms")
    table.words("at")
    table.optional("messages", "at")
    for milliseconds, carried, messages, link in rows[:MOST_LINKS]:
        rate = f"{link.gbit_per_s.value:.3g} Gbit/s ({link.gbit_per_s.source})"
        table.row((_link_text(link), megabytes(carried), f"{messages:.4g}", f"{milliseconds:.3g}", rate))
    yield from table.lines(INDENT)
    if len(rows) > MOST_LINKS:
        yield f"and {len(rows) - MOST_LINKS} links that are less busy"


def _link_text(link: Link) -> str:
    return f"within {link.source}" if link.source == link.target else f"{link.source} > {link.target}"


def _nearest_lines(explain_input: ExplainInput, nearest: Nearest, simulator: AnalyticSimulator) -> Iterator[str]:
    count = len(explain_input.model.variables)
    if nearest.is_same:
        yield f"It is {nearest.label}: no decision differs."
        return
    logs = simulator.predict(explain_input.model, explain_input.cluster, [explain_input.strategy, nearest.strategy])
    speedup = math.exp(logs[1] - logs[0])
    yield (
        f"{nearest.label}, which has other decisions for {nearest.variables} of {count} variables; the strategy is "
        f"predicted to be {speedup:.2f} x as fast."
    )
    if nearest.step_ends:
        yield "its steps {}; there they {}".format(*nearest.step_ends)
    for difference in nearest.differences[:MOST_DIFFERENCES]:
        yield _difference_line(explain_input, difference)
    rest = nearest.differences[MOST_DIFFERENCES:]
    if rest:
        yield f"and {sum(len(difference.variables) for difference in rest)} more variables in {len(rest)} other ways"


def _difference_line(explain_input: ExplainInput, difference: Difference) -> str:
    names = sorted(difference.variables, key=lambda name: -explain_input.model.by_name[name].bytes)
    size = sum(explain_input.model.by_name[name].bytes for name in names)
    return f"{few_of(names)} ({megabytes(size)}): {difference.here}; there {difference.there}"

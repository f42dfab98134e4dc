"""The explanation, line by line: decisions, bytes over links, the predicted step, and the nearest baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from autosync.baselines.nearest import Difference, Nearest, nearest_baseline
from autosync.cost import AnalyticSimulator, traffic
from autosync.explain.bottleneck import step_lines
from autosync.explain.subject import Subject
from autosync.spec import Link
from autosync.words.quantities import megabytes, model_in_words
from autosync.words.strategy import strategy_in_words
from trials.summary import cluster_lines

__all__ = ["explained"]

MOST_LINKS = 16
MOST_DIFFERENCES = 6
NAMED = 3


def explained(subject: Subject) -> Iterator[str]:
    """Every line of the explanation for a terminal, without colours."""
    yield f"Strategy {subject.strategy.digest} on {len(subject.strategy.replicas)} replicas"
    yield from subject.notes
    yield model_in_words(subject.model)
    yield from cluster_lines(subject.cluster)
    yield from ("", "What it does")
    yield from _indented(strategy_in_words(subject.strategy, subject.model))
    yield from ("", "What crosses in one step")
    yield from _indented(_link_lines(subject))
    simulator = AnalyticSimulator()
    simulator.fit(subject.records)
    yield from ("", "How long a step takes")
    yield from _indented(step_lines(subject, simulator.coefficients))
    yield from ("", "The nearest hand-written strategy")
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
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more} ({megabytes(size)}): {difference.here}; there {difference.there}"

"""The section on the cluster, as it was measured, stated or assumed."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from autosync.report.blocks import Block, Note, Paragraph, Picture, Table, TableRow, numbers, texts
from autosync.report.findings import Findings
from autosync.report.numbers import NOTHING, rate
from autosync.report.pictures.cluster import MOST_NODES, draw_cluster
from autosync.report.pictures.strategy import link_name
from autosync.spec import ClusterSpec, Figure, Link, Node
from autosync.words.quantities import count_of


def cluster_blocks(findings: Findings) -> list[Block]:
    run, cluster = findings.run, findings.run.cluster
    blocks: list[Block] = [
        Picture(
            "cluster",
            f"{len(cluster.nodes)} nodes and {len(cluster.switches)} switches with the rates of their links",
            _caption(cluster),
            partial(draw_cluster, cluster),
        ),
        _links(findings),
        _nodes(cluster),
    ]
    if run.probe is None:
        blocks.append(Note("This run has no measurements of the links, so rates are stated or assumed."))
    else:
        blocks.append(Paragraph(f"Measuring the links took {run.probe['seconds']:.1f} s."))
    for count in dict.fromkeys(node.shared_cores.count for node in cluster.nodes if node.shared_cores):
        blocks.append(Paragraph(f"The nodes are emulated on one machine, and share {count:g} processors."))
    return blocks


def _caption(cluster: ClusterSpec) -> str:
    if not cluster.switches:
        nodes = count_of(len(cluster.nodes), "node")
        return f"Worker processes communicate within their machine, at the stated rate. n = {nodes}."
    return (
        f"Nodes are on the right, switches are bars. Arrows give Gbit/s, from a node up to its switch and back down; "
        f"thicker lines are faster links, and their style shows the source of the rate. {_note_on_hidden(cluster)}"
        f"n = {count_of(sum(link.source != link.target for link in cluster.links), 'link direction')}; the "
        f"spread of single transfers is in the table."
    )


def _links(findings: Findings) -> Table:
    cluster, rows = findings.run.cluster, []
    for link in cluster.links:
        seen = transfers_over(link, cluster, findings.run.probe) if link.gbit_per_s.source == "measured" else None
        spread = (
            f"{rate(seen.slowest_gbit_per_s)} to {rate(seen.fastest_gbit_per_s)} ({seen.several})" if seen else NOTHING
        )
        rows.append(TableRow((link_name(link), _figure(link.gbit_per_s), spread, _figure(link.latency_us))))
    return Table(
        (*texts("link"), *numbers("Gbit/s", "single transfers", "latency, \N{MICRO SIGN}s")),
        rows,
        "Rate and latency of each direction, with their sources. A measured rate is the slope of time over bytes; next "
        "to it are the slowest and the fastest single transfer of the largest messages (and the number of transfers).",
        folded=f"{count_of(len(rows), 'link direction')} in numbers",
    )


def _nodes(cluster: ClusterSpec) -> Table:
    rows = [
        TableRow(
            (
                node.name,
                node.address or NOTHING,
                f"{node.cores:g}",
                str(node.workers),
                str(node.gpus),
                _optional(node, "copy_gbit_per_s"),
                _optional(node, "message_us"),
            )
        )
        for node in cluster.nodes
    ]
    titles = ("cores", "workers", "GPUs", "copies, Gbit/s", "a message, \N{MICRO SIGN}s")
    return Table(
        (*texts("node", "address"), *numbers(*titles)),
        rows,
        "Copies are of arrays in memory; a message is one more message between two processes that exchange many.",
        folded=f"{count_of(len(rows), 'node')} in numbers",
    )


def _optional(node: Node, field: str) -> str:
    figure = getattr(node, field)
    return _figure(figure) if figure else NOTHING


def _figure(figure: Figure) -> str:
    return f"{rate(figure.value)} {figure.source}"


def _note_on_hidden(cluster: ClusterSpec) -> str:
    more = len(cluster.nodes) - MOST_NODES
    return f"{more} more nodes are in the table only. " if more > 0 else ""


class TransferRates(NamedTuple):
    """Rates of the slowest and the fastest of `several` transfers of the largest messages over a link."""

    several: int
    slowest_gbit_per_s: float
    fastest_gbit_per_s: float


def transfers_over(link: Link, cluster: ClusterSpec, probe: Mapping[str, Any] | None) -> TransferRates | None:
    """Rates of the transfers in a run's `probe.json` whose bytes all crossed the link; None without such transfers."""
    rates = [
        rate
        for transfer in (probe or {}).get("probes", ())
        if _crosses(transfer, link, cluster)
        for rate in _rates(transfer)
    ]
    return TransferRates(len(rates), min(rates), max(rates)) if rates else None


def _crosses(probe: Mapping[str, Any], link: Link, cluster: ClusterSpec) -> bool:
    if probe.get("fills"):
        return tuple(probe["fills"]) == (link.source, link.target)
    nodes = {node.name for node in cluster.nodes}
    ends = [(flow["source"], flow["target"]) for flow in probe["flows"]]
    return len(ends) == 1 and set(ends[0]) <= nodes and link in cluster.route(*ends[0])


def _rates(probe: Mapping[str, Any]) -> Iterator[float]:
    largest = max(probe["bytes"])
    for size, seconds in zip(probe["bytes"], probe["seconds"], strict=True):
        if size == largest:
            yield 8e-9 * size / seconds

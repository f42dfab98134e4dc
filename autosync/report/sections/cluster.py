"""The cluster as it was measured, stated or assumed."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from autosync.report.blocks import Block, Note, Paragraph, Picture, Row, Table, numbers, texts
from autosync.report.findings import Findings
from autosync.report.numbers import NOTHING, rate
from autosync.report.pictures.cluster import MOST_NODES, draw_cluster
from autosync.report.pictures.strategy import link_name
from autosync.spec import ClusterSpec, Figure, Link, Node
from autosync.words.quantities import counted


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
        blocks.append(Note("Nothing was measured before this run, or it was not kept: rates are stated or assumed."))
    else:
        blocks.append(Paragraph(f"Measuring the links took {run.probe['seconds']:.1f} s."))
    for count in dict.fromkeys(node.shared_cores.count for node in cluster.nodes if node.shared_cores):
        blocks.append(Paragraph(f"Nodes only play machines here: they share {count:g} processors among them."))
    return blocks


def _caption(cluster: ClusterSpec) -> str:
    if not cluster.switches:
        return (
            f"Worker processes talk within their machine, at the rate given. n = {counted(len(cluster.nodes), 'node')}."
        )
    return (
        f"Nodes on the right, switches as bars. Arrows give Gbit/s, from a node up to its switch and down to it; lines "
        f"are thicker where links are faster, and say how that is known. {_hidden(cluster)}"
        f"n = {counted(sum(link.source != link.target for link in cluster.links), 'link direction')}; how single "
        f"transfers differed is in the table."
    )


def _links(findings: Findings) -> Table:
    cluster, rows = findings.run.cluster, []
    for link in cluster.links:
        seen = transfers_over(link, cluster, findings.run.probe) if link.gbit_per_s.source == "measured" else None
        spread = (
            f"{rate(seen.slowest_gbit_per_s)} to {rate(seen.fastest_gbit_per_s)} ({seen.several})" if seen else NOTHING
        )
        rows.append(Row((link_name(link), _figure(link.gbit_per_s), spread, _figure(link.latency_us))))
    return Table(
        (*texts("link"), *numbers("Gbit/s", "single transfers", "latency, \N{MICRO SIGN}s")),
        rows,
        "Rate and latency of each direction, with where they come from. A measured rate is the slope of time over "
        "bytes; beside it the slowest and the fastest single transfer of the largest messages (how many there were).",
        folded=f"{counted(len(rows), 'link direction')} in numbers",
    )


def _nodes(cluster: ClusterSpec) -> Table:
    rows = [
        Row(
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
        "Copies are those of arrays in memory; a message is one more between two processes that are busy with many.",
        folded=f"{counted(len(rows), 'node')} in numbers",
    )


def _optional(node: Node, field: str) -> str:
    figure = getattr(node, field)
    return _figure(figure) if figure else NOTHING


def _figure(figure: Figure) -> str:
    return f"{rate(figure.value)} {figure.source}"


def _hidden(cluster: ClusterSpec) -> str:
    more = len(cluster.nodes) - MOST_NODES
    return f"{more} more nodes are in the table only. " if more > 0 else ""


class TransferRates(NamedTuple):
    """The slowest's and the fastest's rate of `several` transfers of the largest messages over a link."""

    several: int
    slowest_gbit_per_s: float
    fastest_gbit_per_s: float


def transfers_over(link: Link, cluster: ClusterSpec, probe: Mapping[str, Any] | None) -> TransferRates | None:
    """The transfers in a run's `probe.json` of which all bytes crossed the link; None when there were none."""
    rates = [rate for each in (probe or {}).get("probes", ()) if _crosses(each, link, cluster) for rate in _rates(each)]
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

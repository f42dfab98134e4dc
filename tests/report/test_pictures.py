"""Pictures in the form in which a page holds them."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from dataclasses import replace

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from autosync.baselines import BASELINES
from autosync.cost import Replay
from autosync.report.page import inline_svg
from autosync.report.pictures.cluster import MOST_NODES, draw_cluster
from autosync.report.pictures.step import draw_step, lanes_of
from autosync.report.pictures.strategy import crossings_of, holders_of
from autosync.report.style import COLOURS, INK, NARROW, PAPER, RC, SERIES, WIDE
from autosync.spec import ClusterSpec, Pace, Slow, Spread
from tests import cases


def paced(cluster: ClusterSpec) -> ClusterSpec:
    """The cluster with paces that need few words, and many."""
    much = Pace(5.0, 0.02, spread=Spread(0.05, Slow(0.1, 50, 3.0, "left"), (1.0, 1.5)))
    paces = itertools.cycle([Pace(0.0, 0.1), much])
    return replace(
        cluster, nodes=tuple(replace(node, pace=pace) for node, pace in zip(cluster.nodes, paces, strict=False))
    )


CLUSTERS = {
    "one machine": cases.local_cluster(),
    "a star": cases.star_cluster(4),
    "racks": cases.rack_cluster(),
    "uneven": cases.uneven_cluster(),
    "graphics cards": cases.gpu_cluster(),
    "more than are drawn": cases.star_cluster(30),
    "paced": paced(cases.rack_cluster()),
    "one that is paced": paced(cases.local_cluster()),
}


def figure() -> Figure:
    with mpl.rc_context(dict(RC)):
        made = Figure(figsize=(2, 2))
        axes = made.subplots()
        axes.scatter([1, 2], [1, 2], color=SERIES[0].light).set_gid("marks")
        axes.set_title("<b> & $x$", color=INK.light)
        return made


def drawn(name: str) -> ET.Element:
    with mpl.rc_context(dict(RC)):
        return ET.fromstring(inline_svg(figure(), name, 'said "so"', {"marks": ["first <1>", "second"]}))


def test_marks_carry_their_texts_in_order() -> None:
    root = drawn("one")
    assert [title.text for title in root.iter("title")] == ["first <1>", "second"]


def test_identities_and_what_refers_to_them_are_the_pictures_own() -> None:
    first, second = drawn("one"), drawn("other")
    identities = {element.get("id") for element in first.iter() if element.get("id")}
    assert identities
    assert not identities & {element.get("id") for element in second.iter()}
    links = {element.get("href", "").removeprefix("#") for element in first.iter("use")}
    assert links <= identities


def test_colours_and_fonts_are_left_to_the_page() -> None:
    text = ET.tostring(drawn("one"), encoding="unicode")
    assert f"var(--{SERIES[0].name})" in text
    assert "font-family" not in text
    assert [colour for colour in COLOURS if colour.light in text] == []


def test_a_picture_says_what_it_is_and_has_no_size_of_its_own() -> None:
    root = drawn("one")
    assert (root.get("role"), root.get("aria-label")) == ("img", 'said "so"')
    assert root.get("width") is None
    assert root.get("viewBox")


@pytest.mark.parametrize("width", [WIDE, NARROW], ids=lambda width: width.name)
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_any_cluster_is_drawn_with_its_nodes_and_rates(cluster: ClusterSpec, width) -> None:
    with mpl.rc_context(dict(RC)):
        texts = [text.get_text() for text in draw_cluster(cluster, width).figure.axes[0].texts]
    assert set(cluster.switches) <= set(texts)
    names = [node.name for node in cluster.nodes]
    assert [text for text in texts if text in names] == names[:MOST_NODES]
    assert any("\N{UPWARDS ARROW}" in text for text in texts) is bool(cluster.switches)


@pytest.mark.parametrize("width", [WIDE, NARROW], ids=lambda width: width.name)
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_what_is_said_of_a_node_has_room_in_its_box(cluster: ClusterSpec, width) -> None:
    with mpl.rc_context(dict(RC)):
        drawn_figure = draw_cluster(cluster, width).figure
        FigureCanvasAgg(drawn_figure).draw()
        axes = drawn_figure.axes[0]
        boxes = [
            patch.get_window_extent() for patch in axes.patches if patch.get_facecolor()[:3] == to_rgb(PAPER.light)
        ]
        texts = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == min(len(cluster.nodes), MOST_NODES)
    held = [(box, text) for box in boxes for text in texts if box.contains(text.x0, (text.y0 + text.y1) / 2)]
    assert len(held) >= 2 * len(boxes)
    for box, text in held:
        assert text.x1 < box.x1
        assert box.y0 < text.y0
        assert text.y1 < box.y1


STEPS = {"few nodes": (cases.star_cluster(4, gbit_per_s=0.05), 4 + 8), "many nodes": (cases.star_cluster(12), 8 + 12)}


@pytest.mark.parametrize("width", [WIDE, NARROW], ids=lambda width: width.name)
@pytest.mark.parametrize(("cluster", "rows"), STEPS.values(), ids=STEPS)
def test_the_lanes_of_a_step_are_within_it_and_labels_within_their_bars(cluster: ClusterSpec, rows: int, width) -> None:
    model = cases.ncf_like_model()
    strategy = BASELINES["parallax"](model, cluster)
    overlap, links = (ask(model, cluster, strategy) for ask in (Replay().overlap, Replay().links))
    lanes = lanes_of(overlap, links)
    drawn_spans = [span for spans in (*lanes.nodes.values(), *lanes.links.values()) for span in spans]
    assert len(lanes.nodes) + len(lanes.links) == rows
    assert lanes.hidden == len(cluster.nodes) + len(links) - len(lanes.nodes) - len(lanes.links)
    assert all(0 <= span.begin <= span.end <= overlap.step_seconds * (1 + 1e-9) for span in drawn_spans)
    with mpl.rc_context(dict(RC)):
        drawn_figure = draw_step(lanes, width).figure
        FigureCanvasAgg(drawn_figure).draw()
        axes = drawn_figure.axes[0]
        bars = [patch.get_window_extent() for patch in axes.patches]
        labels = [text.get_window_extent() for text in axes.texts if text.get_color() == PAPER.light]
    assert len(bars) == len(drawn_spans)
    assert labels
    for label in labels:
        assert any(bar.x0 < label.x0 and label.x1 < bar.x1 and bar.y0 < label.y0 and label.y1 < bar.y1 for bar in bars)


def test_holders_hold_every_byte_of_the_gradients_once() -> None:
    model, cluster = cases.bert_like_model(layers=1), cases.star_cluster(4)
    for name, baseline in BASELINES.items():
        holders = holders_of(baseline(model, cluster), model)
        assert sum(holder.gradient_bytes for holder in holders) == pytest.approx(model.gradient_bytes), name
        assert holders == sorted(holders, key=lambda holder: -holder.gradient_bytes)


def test_crossings_name_every_link_that_either_strategy_fills() -> None:
    model, cluster = cases.mlp_model(), cases.star_cluster(3)
    reduced, served = (BASELINES[name](model, cluster) for name in ("all_reduce_64mb", "parameter_server"))
    crossings = crossings_of(model, cluster, reduced, served)
    assert {(crossing.link.source, crossing.link.target) for crossing in crossings} >= {
        (link.source, link.target) for link in cluster.links if link.source != link.target
    }
    assert [crossing.seconds for crossing in crossings] == sorted(
        (crossing.seconds for crossing in crossings), reverse=True
    )

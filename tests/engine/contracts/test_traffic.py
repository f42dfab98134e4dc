"""The traffic contract: a step sends the bytes that the simulators predict, on every link."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from autosync.cost import traffic
from autosync.spec import PLACED_ALGORITHMS, ClusterSpec, Strategy
from tests.cover import thorough
from tests.engine.contracts.nets import NETS
from tests.engine.contracts.subject import Case, Subject, session_on
from tests.engine.contracts.test_parity import BASELINES, CLUSTERS, PLACES, wide

SHARE = 0.03
"""The allowed difference from the predicted bytes, as a share."""


def check(patch: pytest.MonkeyPatch, subject: Subject, case: Case, cluster: ClusterSpec, strategy: Strategy) -> None:
    session = session_on(subject, case, cluster)
    sent = on_links(cluster, subject.sent(patch, session, strategy))
    predicted = Counter[tuple[str, str]]()
    for link, size in zip(cluster.links, traffic(session.model, cluster, strategy).bytes, strict=True):
        predicted[link.source, link.target] += size
    assert sent
    for link in predicted | sent:
        assert sent[link] == pytest.approx(predicted[link], rel=SHARE, abs=64), link


def on_links(cluster: ClusterSpec, sent: Mapping[tuple[str, str], int]) -> Counter[tuple[str, str]]:
    """The bytes on each link, from those between devices."""
    node_of = {str(device): device.node for device in cluster.server_devices}
    links = Counter[tuple[str, str]]()
    for (source, target), size in sent.items():
        for link in cluster.route(node_of[source], node_of[target]):
            links[link.source, link.target] += size
    return links


DENSE = [name for name, net in NETS.items() if not net.is_sparse]


@pytest.mark.parametrize("seed", [*range(6), *map(thorough, range(6, 40))])
def test_any_strategy_sends_the_predicted_bytes(monkeypatch: pytest.MonkeyPatch, subject: Subject, seed: int) -> None:
    rng = random.Random(seed)
    case, cluster = Case(rng.choice(DENSE)), CLUSTERS[rng.choice(PLACES)]
    strategy = wide(PLACED_ALGORITHMS).bind(session_on(subject, case, cluster).model, cluster).sample(rng)
    check(monkeypatch, subject, case, cluster, strategy)


@pytest.mark.parametrize("subject", ["pytorch"], indirect=True)
def test_gathered_rows_take_the_predicted_bytes(monkeypatch: pytest.MonkeyPatch, subject: Subject) -> None:
    """The kernel counts the bytes of TensorFlow's rows, in `tests/contracts/test_traffic_contract.py`."""
    case, cluster = Case("common rows"), CLUSTERS["two nodes of two"]
    strategy = BASELINES["all_reduce_25mb"](session_on(subject, case, cluster).model, cluster)
    check(monkeypatch, subject, case, cluster, strategy)

"""The bytes that ranks send are those that the simulator predicts for every link."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from autosync.cost import traffic
from autosync.engine.pytorch.local_transport import LocalTransport
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.engine.pytorch.transport import Action, Tag
from autosync.spec import ClusterSpec, ModelSpec, Strategy
from tests.contracts.ways import COMPRESSED, ROUNDED
from tests.cover import crossed
from tests.engine.pytorch.models import batches, built, loss
from tests.engine.pytorch.ranks import trained
from tests.engine.pytorch.test_parity import CLUSTERS, OPTIMIZERS, model, share_of

SHARE = 0.03
"""The share of the predicted bytes that may be missing or too much."""


def bytes_of_a_step(
    monkeypatch: pytest.MonkeyPatch, module: nn.Module, strategy: Strategy, cluster: ClusterSpec
) -> Counter[tuple[str, str]]:
    """Mean bytes of a step's messages by link (source, target), over as many steps as replicas, so that each replica
    has one turn. The first step, which learns the order, does not count."""
    sent: Counter[tuple[int, int]] = Counter()
    send = LocalTransport.send

    def count(self: LocalTransport, peer: int, tag: Tag, data: memoryview, priority: float, then: Action) -> None:
        if tag.step > 1:
            sent[self.rank, peer] += len(data)
        send(self, peer, tag, data, priority, then)

    monkeypatch.setattr(LocalTransport, "send", count)

    def loop(
        own: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del synchronizer
        for _ in range(1 + len(strategy.replicas)):
            optimizer.zero_grad()
            loss(own, share_of(batches(len(strategy.replicas))[0], rank)).backward()

    trained(module, strategy, cluster, OPTIMIZERS["sgd"], loop)
    links: Counter[tuple[str, str]] = Counter()
    nodes = [device.node for device in cluster.replica_devices]
    for (source, target), size in sent.items():
        for link in cluster.route(nodes[source], nodes[target]):
            links[link.source, link.target] += size // len(strategy.replicas)
    return links


def check_links(counted: Counter[tuple[str, str]], spec: ModelSpec, strategy: Strategy, cluster: ClusterSpec) -> None:
    """Compare the bytes on every link with those predicted."""
    predicted: Counter[tuple[str, str]] = Counter()
    for link, size in zip(cluster.links, traffic(spec, cluster, strategy).bytes, strict=True):
        predicted[link.source, link.target] += size
    assert sum(counted.values()) > 0
    for ends in predicted | counted:
        assert counted[ends] == pytest.approx(predicted[ends], rel=SHARE, abs=64), ends


COMPRESSORS = {name: way for name, way in (ROUNDED | COMPRESSED).items() if "collective" not in name}


@pytest.mark.parametrize(("way", "place"), crossed(COMPRESSORS, CLUSTERS))
def test_links_carry_the_predicted_bytes_of_compressed_gradients(
    monkeypatch: pytest.MonkeyPatch, way: str, place: str
) -> None:
    module, cluster = built("dense"), CLUSTERS[place]
    strategy = COMPRESSORS[way](model(module), cluster)
    counted = bytes_of_a_step(monkeypatch, module, strategy, cluster)
    if "var" not in way:
        check_links(counted, model(module), strategy, cluster)
        return
    # The data choose the sender of the indices, so only the sum over all links is known beforehand.
    predicted = sum(traffic(model(module), cluster, strategy).bytes)
    assert sum(counted.values()) == pytest.approx(predicted, rel=SHARE)

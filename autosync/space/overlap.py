"""Overlap of steps with the next forward pass: the drafts that allow it, and the buckets that suit it."""

import math
import random
from collections.abc import Iterator

from autosync.space.buckets import lay_out_small_buckets
from autosync.space.domain import Domain, Draft
from autosync.space.domains import Domains
from autosync.spec import Cast, VariableStrategy

SMALL_BUCKET_BYTES = (1 << 18, 1 << 20)
"""Sizes of buckets that suit an overlap, the most promising first. The first read of a variable waits for all of its
buckets, so a large bucket delays the next forward pass until its last gradient has arrived."""

SMALL_CHANCE = 0.5
"""The chance that a sampled strategy with an overlap gets small buckets."""

FLIP_CHANCE = 0.1
"""The chance that a mutation adds or removes the overlap, and the chance that it makes the buckets of an overlapped
draft small."""


def can_overlap(draft: Draft) -> bool:
    """Whether steps of the draft can overlap with the next forward pass: no gradient is stale."""
    return not any(server.staleness for decision in draft for server in decision.servers)


def draw_overlap(domains: Domains, draft: Draft, rng: random.Random) -> tuple[Draft, bool]:
    """Draw whether steps of a sampled draft overlap, half of the time; then also draw whether its buckets are small."""
    if not domains.overlap or rng.random() < 0.5 or not can_overlap(draft):
        return draft, False
    return (rng.choice(list(small_bucket_drafts(domains, draft))) if rng.random() < SMALL_CHANCE else draft), True


def mutate_overlap(domains: Domains, draft: Draft, overlaps: bool, rng: random.Random) -> tuple[Draft, bool] | None:
    """Now and then, add or remove the overlap, or make the buckets of an overlapped draft small; else None."""
    if not domains.overlap or not can_overlap(draft):
        return None
    drawn = rng.random()
    if drawn < FLIP_CHANCE:
        return draft, not overlaps
    if overlaps and drawn < 2 * FLIP_CHANCE:
        return rng.choice(list(small_bucket_drafts(domains, draft))), True
    return None


def small_bucket_drafts(domains: Domains, draft: Draft) -> Iterator[Draft]:
    """Yield the draft with dense all-reduced variables in small parts and small buckets, for each size and two orders.

    Buckets are contiguous in the order in which gradients become ready, or in the order of the first reads.
    """
    orders = dict.fromkeys((domains.positions, *((domains.read_order,) if domains.read_order else ())))
    for most_bytes in SMALL_BUCKET_BYTES:
        parts = [_cut_small(domain, decision, most_bytes) for domain, decision in zip(domains.each, draft, strict=True)]
        for order in orders:
            yield lay_out_small_buckets(domains, parts, most_bytes, order)


def _cut_small(domain: Domain, decision: VariableStrategy, part_bytes: int) -> VariableStrategy:
    """The decision on a dense all-reduced variable, with the offered cut whose parts are nearest to `part_bytes`.

    A variable whose gradient is encoded as a matrix, such as by sufficient factors, stays as it is.
    """
    first, is_reduced = decision.shards[0], len(decision.reductions) == len(decision.distinct)
    if domain.variable.sparse or not is_reduced or not isinstance(first.compressor, Cast | None):
        return decision
    cuts = [cut for cut in domain.cuts if cut is None or cut.axis == 0] or list(domain.cuts)
    cut = min(cuts, key=lambda cut: abs(math.log(domain.gradient_bytes / (cut.shards if cut else 1) / part_bytes)))
    if cut == decision.partition:
        return decision
    return VariableStrategy(decision.variable, (first,) * (cut.shards if cut else 1), cut)

"""Samples strategies: decisions for the whole model first, a little noise per variable afterwards.

Independent draws for a hundred variables would all look alike: half on servers, half all-reduced, cut at random. A
sample therefore draws a style first (which variables go on servers, how finely big ones are cut, how many buckets, how
many servers, which algorithm and compressor), applies the style, and then perturbs a few variables. Without the rule
`common_decisions`, draws are independent.
"""

import random

from autosync.space.bucket_moves import bucket_count
from autosync.space.buckets import all_reduced_shards, lay_out_buckets
from autosync.space.domain import REDUCED, SERVED, Domain, Draft
from autosync.space.domains import Domains
from autosync.space.exchange_moves import any_algorithms, change_algorithms, compress_variable
from autosync.space.mutation import random_move
from autosync.space.placement import biggest, spread
from autosync.space.server_moves import draw_devices
from autosync.space.staleness import can_be_stale, with_staleness
from autosync.spec import Partition, Synchronizer, VariableStrategy

STYLES = ("one kind", "big ones", "big ones", "sparse ones", "by shape", "by variable")
PERTURBATIONS = (0, 0, 1, 1, 2, 4)
STALE_CHANCE = 0.25
ALGORITHM_CHANGES = (0, 0, 1, 1, 2)


def sample_draft(domains: Domains, rng: random.Random) -> Draft:
    """Draw a draft as the module's docstring describes. The draft may hold too many buckets; see `within_limits`."""
    stale = len(domains.staleness) > 1 and rng.random() < STALE_CHANCE
    kinds = [SERVED] * len(domains.each) if stale else _draw_kinds(domains, rng)
    cuts = _draw_cuts(domains, rng)
    copies = _draw_copies(domains, rng) if not stale else [False] * len(domains.each)
    draft = [
        _decision(domain, cut, _kind_or_default(domain, kind), copied)
        for domain, cut, kind, copied in zip(domains.each, cuts, kinds, copies, strict=True)
    ]
    draft = draft if stale else _draw_compressors(domains, draft, rng)
    draft = spread(domains, draft, rng, rng.choice((0.0, 0.0, 0.3, 1.0)), draw_devices(domains, rng))
    shards = len(all_reduced_shards(domains, draft))
    if shards:
        draft = lay_out_buckets(domains, draft, bucket_count(domains, shards, rng), rng)
        draft = _draw_algorithms(domains, draft, rng)
    if stale and can_be_stale(draft):
        draft = with_staleness(draft, rng.choice(domains.staleness))
    for _ in range(rng.choice(PERTURBATIONS)):
        draft = random_move(domains, draft, rng)
    return draft


def _decision(domain: Domain, cut: Partition | None, kind: str, copied: bool) -> VariableStrategy:
    """The decision with all shards alike: on the first server or in the first bucket."""
    whole = cut is None
    shard: Synchronizer = (
        domain.reducing(0, whole=whole) if kind == REDUCED else domain.on(domain.devices[0], copied, whole=whole)
    )
    return VariableStrategy(domain.variable.name, (shard,) * (cut.shards if cut else 1), cut)


def _kind_or_default(domain: Domain, wanted: str) -> str:
    return wanted if wanted in domain.kinds else domain.kinds[0]


def _draw_kinds(domains: Domains, rng: random.Random) -> list[str]:
    """Draw the kind of each variable; a variable that is not offered its kind takes the other kind later."""
    if _is_each_for_itself(domains):
        return [rng.choice((SERVED, REDUCED)) for _ in domains.each]
    style = rng.choice(STYLES)
    inside, outside = rng.sample((SERVED, REDUCED), 2)
    count = len(domains.each)
    chosen: set[int]
    if style == "one kind":
        chosen = set(range(count))
    elif style == "big ones":
        chosen = set(domains.by_bytes[: _log_uniform(count, rng)])
    elif style == "sparse ones":
        chosen = {index for index, domain in enumerate(domains.each) if domain.variable.sparse}
    elif style == "by shape":
        share = rng.random()
        chosen = {index for group in domains.alike if rng.random() < share for index in group}
    else:
        share = rng.random()
        chosen = {index for index in range(count) if rng.random() < share}
    return [inside if index in chosen else outside for index in range(count)]


def _draw_cuts(domains: Domains, rng: random.Random) -> list[Partition | None]:
    """Draw a cut per variable: half of the time all coarse; else one fineness for the biggest, coarse for the rest."""
    if _is_each_for_itself(domains):
        return [rng.choice(domain.cuts) for domain in domains.each]
    cuts = [domain.cuts[0] for domain in domains.each]
    if domains.cuttable and rng.random() < 0.5:
        level = rng.random()
        for index in domains.by_bytes[: _log_uniform(len(cuts), rng)]:
            choices = domains.each[index].cuts
            cuts[index] = choices[min(len(choices) - 1, 1 + int(level * (len(choices) - 1)))]
    return cuts


def _draw_copies(domains: Domains, rng: random.Random) -> list[bool]:
    """Draw whether variables get local copies: all or none."""
    if _is_each_for_itself(domains):
        return [rng.random() < 0.5 for _ in domains.each]
    return [rng.random() < 0.5] * len(domains.each)


def _draw_compressors(domains: Domains, draft: Draft, rng: random.Random) -> Draft:
    """Apply one compressor where it is offered: to all variables, to the biggest, or (half of the time) to none."""
    if _is_each_for_itself(domains):
        return [
            compress_variable(domain, decision, rng.choice(domain.compressors))
            for domain, decision in zip(domains.each, draft, strict=True)
        ]
    if not domains.compressible or rng.random() < 0.5:
        return draft
    wanted = rng.choice(domains.compressors)
    chosen = biggest(domains, rng) if rng.random() < 0.5 else domains.by_bytes
    result = list(draft)
    for index in chosen:
        if wanted in domains.each[index].compressors:
            result[index] = compress_variable(domains.each[index], draft[index], wanted)
    return result


def _draw_algorithms(domains: Domains, draft: Draft, rng: random.Random) -> Draft:
    """Apply one algorithm to all buckets; sometimes another algorithm to buckets under or over a size."""
    if not domains.several_algorithms:
        return draft
    if _is_each_for_itself(domains):
        return any_algorithms(domains, draft, rng)
    for _ in range(rng.choice(ALGORITHM_CHANGES)):
        draft = change_algorithms(domains, draft, rng) or draft
    return draft


def _is_each_for_itself(domains: Domains) -> bool:
    return "common_decisions" not in domains.knowledge


def _log_uniform(most: int, rng: random.Random) -> int:
    """Draw a count from 1 to `most`, uniformly on a logarithmic scale."""
    return min(most, int((most + 1) ** rng.random()))

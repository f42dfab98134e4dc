"""The examples of a batch that each replica takes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Share", "shares"]


@dataclass(frozen=True)
class Share:
    """Examples `begin` to `end` of a batch; `counted` of them count."""

    begin: int
    end: int
    counted: int


def shares(examples: int, replicas: int) -> tuple[Share, ...]:
    """A batch of `examples` dealt out as evenly as can be; the first replicas get one more.

    A replica for which none is left runs a copy of the first example, which does not count: every replica takes part
    in every step.
    """
    each, more = divmod(examples, replicas)
    dealt, begin = [], 0
    for replica in range(replicas):
        size = each + (replica < more)
        dealt.append(Share(begin, begin + size, size) if size else Share(0, 1, 0))
        begin += size
    return tuple(dealt)

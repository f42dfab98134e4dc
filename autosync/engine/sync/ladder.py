"""How much top-k keeps: one number, or one of several that a step is told when it runs, without being traced anew.

By which transport that goes is told when a step is traced, and so is whether all is kept: there is a trace of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from autosync.layout.moves import Moves, Span
from autosync.spec import Fidelity, TopK


@final
class Ladder:
    """The ratios of a fidelity, for all exchanges of a strategy; `begin` tells the step that is traced which one."""

    def __init__(self, fidelity: Fidelity | None) -> None:
        self.ratios = () if fidelity is None else fidelity.ratios
        self.transports = () if fidelity is None else fidelity.transports or ()
        self.transport = 0
        self.rung: Any = None
        self.watched = False
        self.whole = False
        self._squares: dict[str, list[Any]] = {}

    def begin(self, rung: Any, watched: bool, transport: int | None = None, whole: bool = False) -> None:
        """Trace a step that keeps the ratio number `rung`, an int32 scalar; with `watched` note what all would keep.

        What is kept goes by the transport of that number, or by the first; if that is the `whole`, as it is, without
        places.
        """
        self.rung, self.watched, self._squares = rung, watched, {}
        self.transport, self.whole = transport or 0, whole

    def is_whole(self, rung: int | None) -> bool:
        """Whether the ratio of this number keeps all."""
        return rung is not None and self.ratios[rung] == 1

    @property
    def kinds(self) -> tuple[int, ...]:
        """Numbers of ratios, one for each kind of steps that are traced: such as keep all, and others."""
        by_kind = {self.is_whole(rung): rung for rung in range(len(self.ratios))}
        return tuple(by_kind.values())

    def note(self, device: str, flat: Any, largest: Any, counts: Sequence[int]) -> None:
        """Note what is kept of an exchange's `flat` array on `device`, from its `largest` elements in falling order.

        Counts beyond these are of all elements.
        """
        import tensorflow as tf

        with tf.device(device):
            sums = tf.cumsum(tf.square(tf.cast(largest, tf.float64)))
            whole = tf.reduce_sum(tf.square(tf.cast(flat, tf.float64)))
            least = tf.concat([sums, [whole]], 0)
            kept = tf.gather(least, [min(count - 1, largest.shape[0]) for count in counts])
            self._squares.setdefault(device, []).append(tf.concat([kept, [whole]], 0))

    def energies(self, device: str) -> Any:
        """The share of the squared norm of all noted arrays on `device` that each ratio keeps, float64 (ratios,)."""
        import tensorflow as tf

        with tf.device(device):
            squares = tf.add_n(self._squares[device])
            return tf.where(squares[-1] > 0, squares[:-1] / squares[-1], tf.ones_like(squares[:-1]))

    def kept(self, compressor: TopK, elements: int) -> Kept:
        """How many of `elements` travel."""
        return Kept(self, tuple(TopK.count(each, elements) for each in self.ratios or (compressor.ratio,)))


@dataclass(frozen=True)
class Kept:
    """How many elements travel: `counts`, one for each ratio of the ladder, or the only one."""

    ladder: Ladder
    counts: tuple[int, ...]

    @property
    def varies(self) -> bool:
        """Whether a step is told which."""
        return bool(self.ladder.ratios)

    def count(self, device: str) -> Any:
        """How many in this step: a number, or an int32 scalar on `device`."""
        return self.of(self.counts, device) if self.varies else self.counts[0]

    def of(self, values: Sequence[Any], device: str) -> Any:
        """This step's one of `values`, int32 numbers or rows of them, one for each ratio."""
        import tensorflow as tf

        with tf.device(device):
            return tf.gather(tf.constant(values, tf.int32), self.ladder.rung)


@final
class RunTimeSpans:
    """The lengths of spans of a bucket that has one of several lengths, from the moves for each of these.

    Moves are carried out as laid out for the greatest length. Where those for another differ in nothing but their
    bounds, theirs are taken, so that sums have the bits that they have in a bucket of that length; else bounds are
    moved in proportion.
    """

    def __init__(self, kept: Kept, moves: Sequence[Moves]) -> None:
        """`moves` are by length, as the `counts` of `kept`."""
        self._kept = kept
        greatest = max(range(len(moves)), key=lambda number: kept.counts[number])
        self.moves = moves[greatest]
        self.length = kept.counts[greatest]
        alike = [_bounds(self.moves, each) for each in moves]
        self._bounds = [
            found or {bound: bound * count // self.length for bound in _all_bounds(self.moves)}
            for found, count in zip(alike, kept.counts, strict=True)
        ]
        for bounds, count in zip(self._bounds, kept.counts, strict=True):
            bounds |= {0: 0, self.length: count}

    def sizes(self, spans: Sequence[Span], device: str) -> Any:
        """How long `spans` are in this step, int32 (spans,) on `device`."""
        rows = [[bounds[end] - bounds[begin] for begin, end in spans] for bounds in self._bounds]
        return self._kept.of(rows, device)


def _all_bounds(moves: Moves) -> list[int]:
    return sorted({bound for each in moves.stages for move in each for bound in move.span} | set(moves.cuts))


def _bounds(one: Moves, other: Moves) -> dict[int, int] | None:
    """By bound of `one` that of `other`, which moves alike; None if it does not."""
    rounds = list(zip((*one.adding, *one.copying), (*other.adding, *other.copying), strict=False))
    same_rounds = (len(one.adding), len(one.copying), one.beside, len(one.cuts)) == (
        len(other.adding),
        len(other.copying),
        other.beside,
        len(other.cuts),
    )
    if not same_rounds or any(len(mine) != len(its) for mine, its in rounds):
        return None
    found: dict[int, int] = dict(zip(one.cuts, other.cuts, strict=True))
    for mine, its in rounds:
        for move, its_move in zip(mine, its, strict=True):
            if move[:2] != its_move[:2]:
                return None
            for bound, its_bound in zip(move.span, its_move.span, strict=True):
                if found.setdefault(bound, its_bound) != its_bound:
                    return None
    ordered = [found[bound] for bound in sorted(found)]
    return found if ordered == sorted(ordered) else None

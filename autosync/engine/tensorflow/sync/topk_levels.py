"""The number of elements that top-k keeps: fixed, or one of several levels that a step receives at run time.

A change of the level needs no new trace. The transport, and whether a step keeps everything, are fixed when a step is
traced, so there is one trace for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import tensorflow as tf

from autosync.layout.moves import Moves, Span
from autosync.spec import Fidelity, TopK


@final
class TopKLevels:
    """The ratios of a fidelity, for all exchanges of a strategy. `begin` passes a level to the step under tracing."""

    def __init__(self, fidelity: Fidelity | None) -> None:
        self.ratios = () if fidelity is None else fidelity.ratios
        self.transports = () if fidelity is None else fidelity.transports or ()
        self.transport = 0
        self.level: tf.Tensor | None = None
        self.watched = False
        self.whole = False
        self._squares: dict[str, list[Any]] = {}

    def begin(self, level: tf.Tensor, watched: bool, transport: int | None = None, whole: bool = False) -> None:
        """Begin to trace a step that keeps the ratio with the number `level`, an int32 scalar.

        With `watched`, the step also notes the energy that every ratio would keep. The kept elements go by the
        transport with the number `transport`, or by the first one. If `whole`, all elements are sent, without indices.
        """
        self.level, self.watched, self._squares = level, watched, {}
        self.transport, self.whole = transport or 0, whole

    def is_whole(self, level: int | None) -> bool:
        """Whether the ratio with this number keeps everything."""
        return level is not None and self.ratios[level] == 1

    @property
    def kinds(self) -> tuple[int, ...]:
        """One ratio number for each kind of traced step: steps that keep everything, and all other steps."""
        by_kind = {self.is_whole(level): level for level in range(len(self.ratios))}
        return tuple(by_kind.values())

    def note(self, device: str, flat: tf.Tensor, largest: Any, counts: Sequence[int]) -> None:
        """Note the energy that each of `counts` keeps of an exchange's `flat` array on `device`.

        `largest` are the array's largest elements in descending order. A count beyond them keeps all elements.
        """
        with tf.device(device):
            sums = tf.cumsum(tf.square(tf.cast(largest, tf.float64)))
            whole = tf.reduce_sum(tf.square(tf.cast(flat, tf.float64)))
            least = tf.concat([sums, [whole]], 0)
            kept = tf.gather(least, [min(count - 1, largest.shape[0]) for count in counts])
            self._squares.setdefault(device, []).append(tf.concat([kept, [whole]], 0))

    def energies(self, device: str) -> Any:
        """The share that each ratio keeps of the squared norm of all noted arrays on `device`, float64 (ratios,)."""
        with tf.device(device):
            squares = tf.add_n(self._squares[device])
            return tf.where(squares[-1] > 0, squares[:-1] / squares[-1], tf.ones_like(squares[:-1]))

    def counts(self, compressor: TopK, elements: int) -> KeptCounts:
        """Return the numbers of elements that are sent out of `elements`."""
        return KeptCounts(self, tuple(TopK.count(ratio, elements) for ratio in self.ratios or (compressor.ratio,)))


@dataclass(frozen=True)
class KeptCounts:
    """The numbers of elements that are sent: `counts`, one for each ratio of `levels`, or the only one."""

    levels: TopKLevels
    counts: tuple[int, ...]

    @property
    def varies(self) -> bool:
        """Whether a step receives its level at run time."""
        return bool(self.levels.ratios)

    def count(self, device: str) -> Any:
        """The number of elements in this step: a Python number, or an int32 scalar on `device`."""
        return self.of(self.counts, device) if self.varies else self.counts[0]

    def of(self, values: Sequence[tf.Tensor], device: str) -> Any:
        """Select this step's entry of `values`, int32 numbers or rows of numbers, one for each ratio."""
        with tf.device(device):
            return tf.gather(tf.constant(values, tf.int32), self.levels.level)


@final
class RunTimeSpans:
    """The lengths of the spans of a bucket that has one of several lengths, from the moves for each length.

    The moves for the greatest length are carried out. If the moves for another length differ only in their bounds,
    these bounds are used, so that sums have the same bits as in a bucket of that length. Otherwise the bounds are
    scaled in proportion.
    """

    def __init__(self, kept: KeptCounts, moves: Sequence[Moves]) -> None:
        """`moves` has the moves for each of the `counts` of `kept`."""
        self._kept = kept
        greatest = max(range(len(moves)), key=lambda number: kept.counts[number])
        self.moves = moves[greatest]
        self.length = kept.counts[greatest]
        mappings = [_map_bounds(self.moves, moves_of_length) for moves_of_length in moves]
        self._bounds = [
            mapping or {bound: bound * count // self.length for bound in _all_bounds(self.moves)}
            for mapping, count in zip(mappings, kept.counts, strict=True)
        ]
        for bounds, count in zip(self._bounds, kept.counts, strict=True):
            bounds |= {0: 0, self.length: count}

    def sizes(self, spans: Sequence[Span], device: str) -> Any:
        """The lengths of `spans` in this step, int32 (spans,) on `device`."""
        rows = [[bounds[end] - bounds[begin] for begin, end in spans] for bounds in self._bounds]
        return self._kept.of(rows, device)


def _all_bounds(moves: Moves) -> list[int]:
    return sorted({bound for stage in moves.stages for move in stage for bound in move.span} | set(moves.cuts))


def _map_bounds(source: Moves, target: Moves) -> dict[int, int] | None:
    """Map the bounds of `source` to the bounds of `target`; None if the moves differ in more than their bounds."""
    rounds = list(zip((*source.adding, *source.copying), (*target.adding, *target.copying), strict=False))
    same_rounds = (len(source.adding), len(source.copying), source.beside, len(source.cuts)) == (
        len(target.adding),
        len(target.copying),
        target.beside,
        len(target.cuts),
    )
    if not same_rounds or any(len(moves) != len(target_moves) for moves, target_moves in rounds):
        return None
    mapping: dict[int, int] = dict(zip(source.cuts, target.cuts, strict=True))
    for moves, target_moves in rounds:
        for move, target_move in zip(moves, target_moves, strict=True):
            if move[:2] != target_move[:2]:
                return None
            for bound, target_bound in zip(move.span, target_move.span, strict=True):
                if mapping.setdefault(bound, target_bound) != target_bound:
                    return None
    ordered = [mapping[bound] for bound in sorted(mapping)]
    return mapping if ordered == sorted(ordered) else None

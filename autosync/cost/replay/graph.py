"""A step as a graph of tasks: the passes, and the parts of every shipment; tasks wait for their predecessors.

If steps overlap with the next forward pass, the graph is a period of steady training, from the beginning of a backward
pass to the beginning of the next one. The forward pass between them waits for each value when it reads it, so all
values have arrived at its end, and a period does not depend on the one before it. Replicas are assumed to begin a
backward pass together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from autosync.cost.replay.builder import GraphBuilder
from autosync.cost.replay.recipes import Catalogue
from autosync.cost.replay.shipments import Shipment
from autosync.layout.exchange import Quantities
from autosync.numeric import FloatArray, IndexArray

MOST_SEGMENTS = 48
"""The maximum number of segments of the backward pass, and of the forward pass."""

BY_ROWS = ("gathered_rows", "sparse_server")
"""Channels of touched rows, which are sent before all other gradients."""

PAYLOAD, TOUCHED, PIECES = (Quantities._fields.index(name) for name in ("payload_bytes", "touched_bytes", "pieces"))


@dataclass(frozen=True, eq=False)
class StepGraph:
    """Tasks of one step: first the forward pass, then segments of the backward pass, then parts of shipments. The
    forward pass is one task; if it waits for values, it follows the backward pass, in segments; the first of them
    is the step's overhead.

    If replicas' passes are `apart`, every replica has its own passes, one replica after another. Except for
    `boundaries`, `successors`, `waits_for` and `of_shipment`, arrays describe only the tasks after the passes.
    """

    shipments: tuple[Shipment, ...]

    boundaries: FloatArray
    """The fractions of the backward pass at which segments end; the last is 1."""

    part_of: IndexArray
    """The number of each task's part in the catalogue."""

    quantities: FloatArray
    """The quantities of each task, (tasks, quantities)."""

    chained: FloatArray
    """The quantities whose messages follow one another, (tasks, quantities)."""

    shards: FloatArray
    """The number of shards that a task sends off; counted at the first task of a shipment."""

    successors: tuple[tuple[int, ...], ...]
    """The tasks that wait for each task."""

    waits_for: tuple[int, ...]
    """The number of tasks that each task waits for."""

    of_shipment: tuple[tuple[int, ...], ...]
    """The tasks that follow each shipment's gradients, in order, up to their sums or their new values."""

    stages: tuple[str, ...]
    """The stage of each task: "pull", "push", "work" or "send"."""

    shipment_of: tuple[int, ...]
    """The number of each task's shipment."""

    apart: int = 1
    """The number of replicas with separate passes; 1 if all replicas share the passes."""

    reads: tuple[float, ...] = (0.0,)
    """The fractions of the forward pass at which its segments begin; several if the pass waits for values."""

    urgency: tuple[int, ...] = ()
    """The urgency of each task if the forward pass waits for values, as in `Tasks`."""

    @property
    def overlaps(self) -> bool:
        """Whether the step overlaps with the next forward pass."""
        return len(self.reads) > 1

    @property
    def passes(self) -> int:
        """The number of tasks that compute: segments of the forward and of the backward pass, once or per replica."""
        return self.apart * (len(self.reads) + len(self.boundaries))

    def kind(self, task: int) -> str:
        """ "forward" or "backward" for a pass, and the stage of any other task."""
        if task < self.passes:
            return "forward" if task % (self.passes // self.apart) < len(self.reads) else "backward"
        return self.stages[task - self.passes]

    def variables(self, task: int) -> tuple[str, ...]:
        """The variables of a task's shipment; empty for passes."""
        return () if task < self.passes else self.shipments[self.shipment_of[task - self.passes]].variables


def step_graph(
    catalogue: Catalogue,
    shipments: Sequence[Shipment],
    ready: Mapping[str, float],
    apart: bool = False,
    read: Mapping[str, float] | None = None,
) -> StepGraph:
    """The graph of a step whose gradients become ready at the fractions `ready` of the backward pass. With `apart`,
    every replica has its own passes. With `read`, the step overlaps with the next forward pass, which reads values at
    these fractions.

    Raises `KeyError` if the cluster lacks a server.
    """
    fractions = [max(ready[name] for name in of_shipment.variables) for of_shipment in shipments]
    boundaries = _boundaries(fractions)
    segment = np.searchsorted(boundaries, np.array(fractions) - 1e-12)
    late = [] if read is None else [min(read[name] for name in shipment.variables) for shipment in shipments]
    reads = (0.0,) if read is None else (0.0, *_beginnings(late))
    forwards, chains = len(reads), len(catalogue.replicas) if apart else 1
    passes = forwards + len(boundaries)
    begins = [passes * chain for chain in range(chains)]
    builder = GraphBuilder(catalogue, *_passes(begins, forwards, passes, read is not None), begins)
    for builder.shipment, shipment in enumerate(shipments):
        if shipment.pulls and read is None:
            builder.pull(shipment)
    of_shipment = []
    urgencies = _urgencies(shipments, late)
    for builder.shipment, (shipment, at) in enumerate(zip(shipments, segment, strict=True)):
        builder.urgency = urgencies[builder.shipment]
        tasks = builder.synchronize(shipment, [begin + forwards + int(at) for begin in begins])
        if read is not None:
            if shipment.pulls:
                tasks += builder.pull_after(shipment, tasks[-1:])
            first = int(np.searchsorted(reads[1:], late[builder.shipment] + 1e-12, side="right"))
            builder.read([tasks], first)
        of_shipment.append(tuple(tasks))
    whole: FloatArray = np.array(builder.quantities, dtype=np.float64).reshape(-1, len(Quantities._fields))
    pieces = np.array(builder.pieces, dtype=np.float64)
    chained = whole.copy()
    chained[:, [PAYLOAD, TOUCHED]] /= pieces[:, None]
    whole[:, PIECES] *= pieces
    return StepGraph(
        tuple(shipments),
        boundaries,
        np.array(builder.part_of, dtype=np.intp),
        whole,
        chained,
        np.array(builder.shards),
        tuple(map(tuple, builder.successors)),
        tuple(builder.waits_for),
        tuple(of_shipment),
        tuple(builder.stages),
        tuple(builder.shipment_of),
        chains,
        reads,
        tuple(builder.urgencies) if read is not None else (),
    )


def _passes(begins: Sequence[int], forwards: int, passes: int, overlaps: bool) -> tuple[list[list[int]], list[int]]:
    """The successors of each task of the passes, and the number of tasks that the task waits for.

    `forwards` of the `passes` tasks from each of `begins` on are the forward pass, which comes first, or last if steps
    overlap.
    """
    successors: list[list[int]] = []
    waits_for: list[int] = []
    for begin in begins:
        order = [(number + (forwards if overlaps else 0)) % passes for number in range(passes)]
        after = dict(pairwise(order))
        successors += [[begin + after[number]] if number in after else [] for number in range(passes)]
        waits_for += [int(number != order[0]) for number in range(passes)]
    return successors, waits_for


def _beginnings(late: Sequence[float]) -> Sequence[float]:
    """The beginnings of the forward pass's segments: 0, and the reads. Many reads are rounded down."""
    begins = np.unique(np.array([0.0, *late]))
    if len(begins) > MOST_SEGMENTS:
        begins = np.unique(np.floor(begins * MOST_SEGMENTS + 1e-9) / MOST_SEGMENTS)
    beginnings: list[float] = begins.tolist()
    return beginnings


def _urgencies(shipments: Sequence[Shipment], late: Sequence[float]) -> list[int]:
    """The urgency of each shipment: touched rows come first, then the order of first reads; 0 without reads."""
    if not late:
        return [0] * len(shipments)
    order = sorted(range(len(shipments)), key=lambda number: (not _is_of_rows(shipments[number]), late[number], number))
    urgencies = [0] * len(shipments)
    for place, number in enumerate(order):
        urgencies[number] = place
    return urgencies


def _is_of_rows(shipment: Shipment) -> bool:
    return bool(shipment.uses) and shipment.uses[0].channel[0] in BY_ROWS


def _boundaries(fractions: Sequence[float]) -> FloatArray:
    """The ends of the backward pass's segments: where shipments become ready, and 1. Many ends are rounded up."""
    ends = np.unique(np.array([*fractions, 1.0]))
    if len(ends) > MOST_SEGMENTS:
        ends = np.unique(np.ceil(ends * MOST_SEGMENTS - 1e-9) / MOST_SEGMENTS)
    return ends

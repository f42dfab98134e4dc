"""A step as a graph of tasks: the passes, and every shipment's parts, each waiting for those before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autosync.cost.replay.recipes import Catalogue
from autosync.cost.replay.shipments import Shipment
from autosync.layout.all_reduce.ring import ring_pieces
from autosync.layout.exchange import Quantities

MOST_SEGMENTS = 48
"""The backward pass is taken apart into no more segments than this."""

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

PAYLOAD, TOUCHED, PIECES = (Quantities._fields.index(each) for each in ("payload_bytes", "touched_bytes", "pieces"))


@dataclass(frozen=True, eq=False)
class StepGraph:
    """Tasks of one step: 0 is the forward pass, then come segments of the backward pass, then parts of shipments.

    Where replicas' passes are `apart`, each has such passes, one replica's after the other's. Segment i ends at the
    fraction `boundaries[i]` of the backward pass, the last at 1. `successors[t]` wait for task t among others,
    `waits_for[t]` counts whom t waits for. All else is of the tasks after the passes, in their order: task t is part
    `part_of` of the catalogue with `quantities` (tasks, quantities), of which `chained` are those that follow one
    another; `shards` are counted where a shipment sets out; `stages` ("pull", "push", "work", "send") and `shipment_of`
    say what a task is and whose. `of_shipment[i]` are the tasks after shipment i's gradients, in turn.
    """

    shipments: tuple[Shipment, ...]
    boundaries: FloatArray
    part_of: IntArray
    quantities: FloatArray
    chained: FloatArray
    shards: FloatArray
    successors: tuple[tuple[int, ...], ...]
    waits_for: tuple[int, ...]
    of_shipment: tuple[tuple[int, ...], ...]
    stages: tuple[str, ...]
    shipment_of: tuple[int, ...]
    apart: int = 1

    @property
    def passes(self) -> int:
        """How many tasks compute: the forward pass, and the backward pass's segments, of all replicas or of each."""
        return self.apart * (1 + len(self.boundaries))


@dataclass
class _Builder:
    catalogue: Catalogue
    successors: list[list[int]]
    waits_for: list[int]
    forward: Sequence[int]
    """The tasks that are forward passes."""
    part_of: list[int] = field(default_factory=list)
    quantities: list[Quantities] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)
    shards: list[float] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    shipment_of: list[int] = field(default_factory=list)
    shipment: int = 0

    def pull(self, shipment: Shipment) -> None:
        """Add the tasks of a pull, which forward passes wait for."""
        for channel, quantities in shipment.uses:
            recipe = self.catalogue.recipe(channel)
            made = self._chain([("pull", part) for part in (*recipe.pull, *recipe.send)], quantities, ())
            for task in self.forward if made else ():
                self.successors[made[-1]].append(task)
                self.waits_for[task] += 1

    def synchronize(self, shipment: Shipment, ready: Sequence[int]) -> list[int]:
        """Add all tasks that follow the tasks `ready`, with which the shipment's gradients are; these tasks.

        Of several, one a replica, what each replica sends first follows its own alone.
        """
        tasks: list[int] = []
        after = ready
        for channel, quantities in shipment.uses:
            recipe = self.catalogue.recipe(channel)
            push = recipe.push
            if after is ready and len(ready) > 1 and (own := self.catalogue.first_of_each(channel)):
                sent = [self._chain([("push", part)], quantities, [ready[number]])[0] for number, part in own.items()]
                after = [*sent, *(task for number, task in enumerate(ready) if number not in own)]
                tasks += sent
                push = push[1:]
            parts = [("push", part) for part in push] + [("work", part) for part in recipe.work]
            if not shipment.pulls:
                parts += [("send", part) for part in recipe.send]
            made = self._chain(parts, quantities, after)
            tasks += made
            after = made[-1:] or after
        if tasks:
            self.shards[-len(tasks)] = shipment.shards
        return tasks

    def _chain(self, parts: Sequence[tuple[str, int]], quantities: Quantities, after: Sequence[int]) -> list[int]:
        """Add parts of the current shipment, which follow one another and all tasks `after`; their tasks."""
        made = []
        for stage, part in parts:
            task = len(self.successors)
            self.successors.append([])
            self.waits_for.append(len(after))
            for each in after:
                self.successors[each].append(task)
            self.part_of.append(part)
            self.quantities.append(quantities)
            self.pieces.append(self._pieces(part, quantities))
            self.shards.append(0.0)
            self.stages.append(stage)
            self.shipment_of.append(self.shipment)
            made.append(task)
            after = (task,)
        return made

    def _pieces(self, part: int, quantities: Quantities) -> int:
        """How many pieces the engine makes of each of a ring's chunks; 1 of all else."""
        members = self.catalogue.parts[part].ring_members
        return 1 if members < 3 else ring_pieces(quantities.touched_bytes / members)


def step_graph(
    catalogue: Catalogue, shipments: Sequence[Shipment], ready: Mapping[str, float], apart: bool = False
) -> StepGraph:
    """The step whose gradients become ready at these fractions of the backward pass; with passes of each replica's own
    if they are `apart`.

    Raises `KeyError` for a server that the cluster lacks.
    """
    fractions = [max(ready[name] for name in each.variables) for each in shipments]
    boundaries = _boundaries(fractions)
    segment = np.searchsorted(boundaries, np.array(fractions) - 1e-12)
    passes, chains = 1 + len(boundaries), len(catalogue.replicas) if apart else 1
    begins = [passes * each for each in range(chains)]
    successors = [[] if each % passes == 0 else [each] for each in range(1, chains * passes + 1)]
    builder = _Builder(catalogue, successors, ([0] + [1] * (passes - 1)) * chains, begins)
    for builder.shipment, each in enumerate(shipments):
        if each.pulls:
            builder.pull(each)
    of_shipment = []
    for builder.shipment, (each, at) in enumerate(zip(shipments, segment, strict=True)):
        of_shipment.append(tuple(builder.synchronize(each, [begin + 1 + int(at) for begin in begins])))
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
    )


def _boundaries(fractions: Sequence[float]) -> FloatArray:
    """Ends of the backward pass's segments: where shipments become ready, rounded up where these are many; and 1."""
    found = np.unique(np.array([*fractions, 1.0]))
    if len(found) > MOST_SEGMENTS:
        found = np.unique(np.ceil(found * MOST_SEGMENTS - 1e-9) / MOST_SEGMENTS)
    return found

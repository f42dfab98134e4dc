"""Builds the graph of a step: the parts of every shipment become tasks that wait for their predecessors."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from autosync.cost.replay.recipes import Catalogue
from autosync.cost.replay.shipments import Shipment
from autosync.layout.all_reduce.ring import ring_pieces
from autosync.layout.exchange import Quantities


@dataclass
class GraphBuilder:
    """Tasks of one step: passes that are given, and the tasks of shipments that are added one after another."""

    catalogue: Catalogue
    successors: list[list[int]]
    waits_for: list[int]
    forward: Sequence[int]
    """The tasks that begin forward passes."""
    part_of: list[int] = field(default_factory=list)
    quantities: list[Quantities] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)
    shards: list[float] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    shipment_of: list[int] = field(default_factory=list)
    urgencies: list[int] = field(default_factory=list)
    shipment: int = 0
    urgency: int = 0
    """The urgency of the tasks that are added."""

    def pull(self, shipment: Shipment) -> None:
        """Add the tasks of a pull; forward passes wait for them."""
        self.read(self._pull(shipment, ()), 0)

    def pull_after(self, shipment: Shipment, after: Sequence[int]) -> list[int]:
        """Add the tasks of a pull that follows the tasks `after`; return them."""
        return [task for chain in self._pull(shipment, after) for task in chain]

    def _pull(self, shipment: Shipment, after: Sequence[int]) -> list[list[int]]:
        """Add the tasks of a pull; return those of each channel."""
        return [
            self._chain([("pull", part) for part in (*recipe.pull, *recipe.send)], quantities, after)
            for recipe, quantities in ((self.catalogue.recipe(channel), of) for channel, of in shipment.uses)
        ]

    def read(self, chains: Sequence[Sequence[int]], segment: int) -> None:
        """Have segment `segment` of each forward pass wait for the last task of each chain."""
        for chain in filter(None, chains):
            for task in self.forward:
                self.successors[chain[-1]].append(task + segment)
                self.waits_for[task + segment] += 1

    def synchronize(self, shipment: Shipment, ready: Sequence[int]) -> list[int]:
        """Add all tasks that follow the tasks `ready`, after which the shipment's gradients are ready; return them.

        If `ready` has one task per replica, a replica's first message waits only for the replica's own task.
        """
        tasks: list[int] = []
        after = ready
        for channel, quantities in shipment.uses:
            recipe = self.catalogue.recipe(channel)
            push = recipe.push
            if after is ready and len(ready) > 1 and (first := self.catalogue.first_of_each(channel)):
                sent = [self._chain([("push", part)], quantities, [ready[number]])[0] for number, part in first.items()]
                after = [*sent, *(task for number, task in enumerate(ready) if number not in first)]
                tasks += sent
                push = push[1:]
            parts = [("push", part) for part in push] + [("work", part) for part in recipe.work]
            if not shipment.pulls:
                parts += [("send", part) for part in recipe.send]
            chain = self._chain(parts, quantities, after)
            tasks += chain
            after = chain[-1:] or after
        if tasks:
            self.shards[-len(tasks)] = shipment.shards
        return tasks

    def _chain(self, parts: Sequence[tuple[str, int]], quantities: Quantities, after: Sequence[int]) -> list[int]:
        """Add parts of the current shipment, which follow one another and all tasks `after`; return their tasks."""
        chain = []
        for stage, part in parts:
            task = len(self.successors)
            self.successors.append([])
            self.waits_for.append(len(after))
            for predecessor in after:
                self.successors[predecessor].append(task)
            self.part_of.append(part)
            self.quantities.append(quantities)
            self.pieces.append(self._pieces(part, quantities))
            self.shards.append(0.0)
            self.stages.append(stage)
            self.shipment_of.append(self.shipment)
            self.urgencies.append(self.urgency)
            chain.append(task)
            after = (task,)
        return chain

    def _pieces(self, part: int, quantities: Quantities) -> int:
        """The number of pieces that the engine makes of each chunk of a ring; 1 for all other parts."""
        members = self.catalogue.parts[part].ring_members
        return 1 if members < 3 else ring_pieces(quantities.touched_bytes / members)

"""The `changes` section of a file for an emulated cluster: new link rates at given times.

changes:
  - {after: 60s, nodes: {node1: {up: 50mbit, down: 50mbit}}}
  - {after: 120s, link: 1gbit, racks: {left: {up: 200mbit}}}
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, model_validator

from autosync.errors import ClusterError
from autosync.spec import Figure, LaterRate, quote, shorten_list
from autosync.spec.cluster import MOST_AFTER_SECONDS, MOST_LATER
from trials.cluster.pace_entry import CHECKED, Seconds
from trials.cluster.racks import parse_rate


def _rate(value: Any) -> float:
    """Convert to Gbit/s."""
    try:
        return parse_rate(value if isinstance(value, str) else repr(value))
    except ClusterError as error:
        raise ValueError(str(error)) from None


Rate = Annotated[
    float,
    BeforeValidator(_rate),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?(mbit|gbit)$", "examples": ["200mbit", "2.5gbit"]}),
]


WAYS = ("up", "down")


class RatesEntry(BaseModel):
    """New rates of the link of a node or a rack."""

    model_config = CHECKED

    up: Rate | None = Field(None, description="Rate to the switch above. Left out: as before.")
    down: Rate | None = Field(None, description="Rate from the switch above. Left out: as before.")

    @model_validator(mode="after")
    def _changes_something(self) -> RatesEntry:
        if self.up is None and self.down is None:
            raise ValueError("a link that changes needs a new rate `up`, `down` or both; add one.")
        return self


class ChangeEntry(BaseModel):
    """New link rates from a time on; rates that are not stated stay."""

    model_config = CHECKED

    after: Seconds = Field(gt=0, le=MOST_AFTER_SECONDS, description="Seconds from when the cluster is up, such as 60s.")
    link: Rate | None = Field(None, description="Rate up and down of every node without another rate here.")
    nodes: dict[str, RatesEntry] = Field(default_factory=dict, description="Rates of nodes, by their names.")
    racks: dict[str, RatesEntry] = Field(default_factory=dict, description="Rates of racks' links to the core.")

    @model_validator(mode="after")
    def _changes_something(self) -> ChangeEntry:
        if self.link is None and not self.nodes and not self.racks:
            raise ValueError("a change needs rates, by `link`, `nodes` or `racks`; add one of them.")
        return self

    def rates(self, names: Sequence[str]) -> dict[tuple[str, str], float]:
        """Return rates in Gbit/s by node or rack and direction, *up* or *down*; `names` are the names of all nodes."""
        stated = self.nodes | self.racks
        rates = {(name, way): getattr(entry, way) for name, entry in stated.items() for way in WAYS}
        common = {(name, way): self.link for name in names for way in WAYS}
        return {key: rate for key in common | rates if (rate := rates.get(key) or common.get(key)) is not None}


def check_changes(changes: Sequence[ChangeEntry], nodes: Sequence[str], racks: Sequence[str]) -> None:
    """Raise `ValueError` for changes out of order, or of a node or rack without a link.

    `nodes` and `racks` are the names of those with a link.
    """
    if len(changes) > MOST_LATER:
        raise ValueError(f"changes: there are at most {MOST_LATER}, not {len(changes)}; state fewer.")
    for index, (earlier, later) in enumerate(pairwise(changes), 1):
        if later.after <= earlier.after:
            raise ValueError(
                f"changes[{index}].after: changes come in order of time, each after the one before, but "
                f"{later.after:g} s is not after {earlier.after:g} s."
            )
    if changes and not nodes:
        raise ValueError("changes: a single node has no link to change; add nodes, or omit `changes`.")
    for index, change in enumerate(changes):
        for what, there, named in (("node", nodes, change.nodes), ("rack", racks, change.racks)):
            for name in named:
                if name not in there:
                    known = f"there are {shorten_list(there)}" if there else "there are none"
                    raise ValueError(
                        f"changes[{index}].{what}s: a {what} whose link changes is one with a link ({known}), not "
                        f"{quote(name)}."
                    )


def later_rates(changes: Sequence[ChangeEntry], nodes: Sequence[str]) -> dict[tuple[str, str], tuple[LaterRate, ...]]:
    """Return the later rates of the links that change, by node or rack and direction, *up* or *down*."""
    later: dict[tuple[str, str], tuple[LaterRate, ...]] = {}
    for change in changes:
        for key, rate in change.rates(nodes).items():
            later[key] = (*later.get(key, ()), LaterRate(change.after, Figure(rate, "stated")))
    return later

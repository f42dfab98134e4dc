"""The request for one trial: which strategy to time, how, and what is known beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from autosync.spec import Strategy, TimingProtocol

__all__ = ["TrialRequest"]


@dataclass(frozen=True)
class TrialRequest:
    """One attempt to time `strategy` under `protocol`.

    `best_median_seconds` is the best step time so far, against which a slow trial is stopped early (None: never stop);
    `best_when` says after "the best" which trials that is the best of.
    `label` says in a word where the strategy comes from; `run` names the search it belongs to.
    """

    strategy: Strategy
    protocol: TimingProtocol = field(default_factory=TimingProtocol)
    purpose: str = "manual"
    label: str = "manual"
    run: str = "manual"
    seed: int = 0
    best_median_seconds: float | None = None
    best_when: str = "so far"
    predicted_seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        return document | {"strategy": self.strategy.to_json(), "protocol": self.protocol.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TrialRequest:
        nouns = {
            "strategy": Strategy.from_json(document["strategy"]),
            "protocol": TimingProtocol.from_json(document["protocol"]),
        }
        return cls(**(dict(document) | nouns))

"""The training settings of a learned simulator, and the ablations: inputs withheld to measure their worth."""

from dataclasses import dataclass

from autosync.spec.codec import Noun


@dataclass(frozen=True)
class TrainingSettings(Noun, partial=True):
    """How an ensemble is trained.

    A Gaussian prior pulls parameters to their start values. Many records outweigh this prior.
    """

    members: int = 5
    """The number of members."""
    steps: int = 200
    """Training steps; `epochs` can raise their number."""
    epochs: int = 0
    """Passes over the records, if these are more steps than `steps`."""
    batch: int = 1024
    """Records per step."""
    learning_rate: float = 0.03
    ranking_weight: float = 0.3
    """The ranking loss' weight relative to the regression loss."""
    prior_deviation: float = 0.015
    """The prior's standard deviation for the weight of a pooled input."""
    weight_deviation: float = 0.1
    """The prior's standard deviation for all other parameters."""
    pairs: int = 20_000
    """The most ranked pairs in a step, drawn at random if there are more."""


@dataclass(frozen=True)
class Ablation(Noun, always=("shuffle_variables", "without_replay", "without_topology"), partial=True):
    """Inputs withheld from a simulator."""

    shuffle_variables: bool = False
    """Variables appear in an order drawn for each strategy instead of the model's order."""
    without_replay: bool = False
    """The replay stays the base, but the network does not read the replay's figures."""
    without_topology: bool = False
    """The network reads neither links nor the differences between nodes."""


NOTHING_WITHHELD = Ablation()

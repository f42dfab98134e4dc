"""How a learned simulator is trained, and what is withheld from it to see what that is worth."""

from dataclasses import dataclass

from autosync.spec.codec import Noun


@dataclass(frozen=True)
class TrainingSettings(Noun, partial=True):
    """How an ensemble of `members` is trained: for `steps` steps, or `epochs` passes over the records if that is more.

    A step takes `batch` records. `ranking_weight` is the ranking loss' over the regression loss'; `pairs` bounds the
    ranked pairs of a step, drawn at random when there are more. Parameters are held where they start: the weight of a
    pooled input may well move by `prior_deviation`, any other by `weight_deviation`, and records outweigh that as they
    get many.
    """

    members: int = 5
    steps: int = 200
    epochs: int = 0
    batch: int = 1024
    learning_rate: float = 0.03
    ranking_weight: float = 0.3
    prior_deviation: float = 0.015
    weight_deviation: float = 0.1
    pairs: int = 20_000


@dataclass(frozen=True)
class Ablation(Noun, always=("shuffle_variables", "without_replay", "without_topology"), partial=True):
    """What a simulator has to learn without.

    With `shuffle_variables` it sees variables in an order drawn for each strategy, not in the model's; `without_replay`
    keeps the replay as the base and its figures from the network; `without_topology` leaves out links, and how nodes
    differ.
    """

    shuffle_variables: bool = False
    without_replay: bool = False
    without_topology: bool = False


NOTHING_WITHHELD = Ablation()

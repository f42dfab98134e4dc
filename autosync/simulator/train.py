"""Training one member of an ensemble: a torch module that predicts residuals over the base simulator."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from autosync.simulator.examples import Examples, Targets
from autosync.simulator.settings import TrainingSettings
from autosync.simulator.stored import AnyInputs
from autosync.stats.occasions import members_of

TEMPERATURE = 0.05
"""Log seconds (about 5 %) over which a wrong order stops being a near miss."""
ERROR = 0.05
OUTLIER = 3.0
LEAST_WEIGHT = 1e-9

Pairs = tuple[torch.Tensor, torch.Tensor]
"""Positions of the faster and of the slower record, int64 (p,) each."""


def chosen_pairs(targets: Targets, most: int, generator: torch.Generator) -> Pairs:
    """The pairs to rank, at most so many of them."""
    faster, slower = targets.told_apart
    if len(faster) > most:
        chosen = torch.randperm(len(faster), generator=generator)[:most]
        faster, slower = faster[chosen], slower[chosen]
    return faster, slower


def loss(predicted: torch.Tensor, targets: Targets, pairs: Pairs, ranking_weight: float) -> torch.Tensor:
    """The scalar that training makes small."""
    return regression_loss(predicted, targets) + ranking_weight * ranking_loss(predicted, targets, pairs)


def ranking_loss(predicted: torch.Tensor, targets: Targets, pairs: Pairs) -> torch.Tensor:
    """The weighted mean over `pairs`, a scalar; 0 without any."""
    faster, slower = pairs
    weights = pair_weights(targets, pairs).to(predicted.dtype)
    losses = torch.nn.functional.softplus((predicted[faster] - predicted[slower]) / TEMPERATURE)
    return (weights * losses).sum() / weights.sum().clamp(min=LEAST_WEIGHT)


def regression_loss(predicted: torch.Tensor, targets: Targets) -> torch.Tensor:
    """The weighted mean of Huber's loss of the errors, counted in `ERROR`s, a scalar."""
    weights, measured = targets.weights.to(predicted.dtype), targets.measured.to(predicted.dtype)
    losses = torch.nn.functional.huber_loss(predicted / ERROR, measured / ERROR, delta=OUTLIER, reduction="none")
    return (weights * losses).sum() / weights.sum()


def pair_weights(targets: Targets, pairs: Pairs) -> torch.Tensor:
    """A pair counts as much as the lighter of its records, float64 (p,)."""
    faster, slower = pairs
    return torch.minimum(targets.weights[faster], targets.weights[slower])


SKIP, LEVEL = "skip.", "level"
"""Names of the parameters that weigh pooled inputs, and of the one that shifts all predictions."""
LEVEL_DEVIATION = 0.1
CHECKS = 12
"""The number of times in training that the loss on held-out records is looked at."""
FEWEST_HELD = 6
"""The fewest held-out records that can say when to stop."""
TOGETHER = 16
"""Records of an occasion that come together in a batch, as far as there are: only those are ranked."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread in the block: models this small wait for threads, and sums depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let torch's layers start from `seed` in the block; the process's own generator is left as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a member learns from, with normalized inputs, and other records that say when it has learned enough."""

    taught: Examples
    held: Examples
    settings: TrainingSettings
    generator: torch.Generator


def train(module: torch.nn.Module, lesson: Lesson) -> None:
    """Train `module` with Adam from where it stands, in float32; it ends with the parameters best on what was held out.

    Its parameters are pulled to where they started: a Gaussian prior, as in anchored ensembles (Pearce et al. 2020).
    The same module, lesson and generator give the same parameters.
    """
    settings, taught, held = lesson.settings, _in_single(lesson.taught), _in_single(lesson.held)
    anchors = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    optimizer = torch.optim.Adam(module.parameters(), lr=settings.learning_rate)
    total = float(taught.targets.weights.sum())
    steps = max(settings.steps, -(-settings.epochs * len(taught) // settings.batch))
    crew = taught.inputs.crew
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
    watch = _Watch(module, held, lesson)
    for step, places in zip(range(steps), batches(lesson), strict=False):
        targets = taught.targets if len(places) == len(taught) else taught.targets.take(places)
        optimizer.zero_grad()
        found = _loss(_residuals(module, taught.inputs, places), targets, lesson)
        torch.autograd.backward(found + _prior(module, anchors, settings, total) / crew.size)
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.grad = crew.summed(parameter.grad)
        optimizer.step()
        schedule.step()
        if (step + 1) % max(1, steps // CHECKS) == 0 or step + 1 == steps:
            watch.look()
    watch.take_best()


def _in_single(examples: Examples) -> Examples:
    return Examples(examples.inputs.to(torch.float32), examples.targets)


def _loss(residuals: torch.Tensor, targets: Targets, lesson: Lesson) -> torch.Tensor:
    pairs = chosen_pairs(targets, lesson.settings.pairs, lesson.generator)
    return loss(targets.base.float() + residuals, targets, pairs, lesson.settings.ranking_weight)


def _residuals(module: torch.nn.Module, inputs: AnyInputs, places: Sequence[int]) -> torch.Tensor:
    """What `module` predicts of the inputs at `places`, (p,). Of those that others of the crew have, they say it, and
    gradients flow to them there: summed over the crew, parameters get the gradient of the whole."""
    own, at = inputs.own(places)
    found = module(own)
    if inputs.crew.size == 1:
        return found
    said = torch.zeros(len(places), dtype=found.dtype).index_put((at,), found.detach())
    return inputs.crew.summed(said).index_put((at,), found)


def _prior(
    module: torch.nn.Module, anchors: dict[str, torch.Tensor], settings: TrainingSettings, weight: float
) -> torch.Tensor:
    """The prior's loss, against records of so much `weight` together."""
    total = torch.zeros(())
    for name, parameter in module.named_parameters():
        deviation = settings.weight_deviation
        if name.startswith(SKIP):
            deviation = settings.prior_deviation
        elif name == LEVEL:
            deviation = LEVEL_DEVIATION
        total = total + ((parameter - anchors[name]) ** 2).sum() / (2 * deviation**2 * weight)
    return total


def batches(lesson: Lesson) -> Iterator[Sequence[int]]:
    """Places of records, pass after pass; a batch is made of runs of one occasion."""
    occasions, batch = lesson.taught.targets.occasions, lesson.settings.batch
    count = len(occasions)
    while count <= batch:
        yield range(count)
    while True:
        order = torch.randperm(count, generator=lesson.generator)
        runs = []
        for places in members_of(occasions[order].numpy()):
            runs += list(order[torch.from_numpy(places)].split(TOGETHER))
        mixed = torch.cat([runs[place] for place in torch.randperm(len(runs), generator=lesson.generator).tolist()])
        for places in mixed.split(batch):
            yield places.tolist()


class _Watch:
    """Keeps the parameters that did best on held-out records; the last ones where too few are held out."""

    def __init__(self, module: torch.nn.Module, held: Examples, lesson: Lesson) -> None:
        self._module, self._held, self._lesson = module, held, lesson
        self._useful = len(held) >= FEWEST_HELD
        self._least, self._best = float("inf"), dict[str, torch.Tensor]()
        self.look()

    def look(self) -> None:
        if not self._useful:
            return
        with torch.no_grad():
            held = self._held
            found = float(_loss(self._module(held.inputs), held.targets, self._lesson))
        if found < self._least:
            self._least = found
            self._best = {name: each.detach().clone() for name, each in self._module.state_dict().items()}

    def take_best(self) -> None:
        if self._useful:
            self._module.load_state_dict(self._best)

"""Training of one ensemble member: a torch module that predicts residuals over the base simulator."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from autosync.simulator.examples import Examples, Targets
from autosync.simulator.settings import TrainingSettings
from autosync.simulator.stored import AnyInputs
from autosync.stats.drift import members_of

TEMPERATURE = 0.05
"""Log seconds (about 5 %) beyond which a wrong order is no longer a near miss."""
ERROR = 0.05
OUTLIER = 3.0
LEAST_WEIGHT = 1e-9

Pairs = tuple[torch.Tensor, torch.Tensor]
"""Positions of the faster and of the slower record, int64 (p,) each."""


def choose_pairs(targets: Targets, most: int, generator: torch.Generator) -> Pairs:
    """Return at most `most` pairs to rank."""
    faster, slower = targets.distinguishable_pairs
    if len(faster) > most:
        chosen = torch.randperm(len(faster), generator=generator)[:most]
        faster, slower = faster[chosen], slower[chosen]
    return faster, slower


def loss(predicted: torch.Tensor, targets: Targets, pairs: Pairs, ranking_weight: float) -> torch.Tensor:
    """Return the training loss, a scalar."""
    return regression_loss(predicted, targets) + ranking_weight * ranking_loss(predicted, targets, pairs)


def ranking_loss(predicted: torch.Tensor, targets: Targets, pairs: Pairs) -> torch.Tensor:
    """Return the weighted mean over `pairs`, a scalar; 0 without pairs."""
    faster, slower = pairs
    weights = pair_weights(targets, pairs).to(predicted.dtype)
    losses = torch.nn.functional.softplus((predicted[faster] - predicted[slower]) / TEMPERATURE)
    return (weights * losses).sum() / weights.sum().clamp(min=LEAST_WEIGHT)


def regression_loss(predicted: torch.Tensor, targets: Targets) -> torch.Tensor:
    """Return the weighted mean of Huber's loss of the errors in units of `ERROR`, a scalar."""
    weights, measured = targets.weights.to(predicted.dtype), targets.measured.to(predicted.dtype)
    losses = torch.nn.functional.huber_loss(predicted / ERROR, measured / ERROR, delta=OUTLIER, reduction="none")
    return (weights * losses).sum() / weights.sum()


def pair_weights(targets: Targets, pairs: Pairs) -> torch.Tensor:
    """Return each pair's weight, the smaller weight of its two records, float64 (p,)."""
    faster, slower = pairs
    return torch.minimum(targets.weights[faster], targets.weights[slower])


SKIP, LEVEL = "skip.", "level"
"""Names of the parameters that weight pooled inputs, and of the parameter that shifts all predictions."""
LEVEL_DEVIATION = 0.1
CHECKS = 12
"""The number of checks of the held-out loss during training."""
FEWEST_HELD = 6
"""The fewest held-out records that can decide when to stop."""
TOGETHER = 16
"""The most records of an occasion that stay together in a batch, because only records of one occasion are ranked."""


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit torch to one thread in the block: small models lose time to threads, and sums depend on the number of
    threads.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def torch_seed(seed: int) -> Iterator[None]:
    """Seed torch's initialization in the block without changing the process's own generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@dataclass(frozen=True, eq=False)
class FitTask:
    """The inputs of a member's training, normalized."""

    training: Examples
    held: Examples
    """Held-out examples that decide when to stop."""
    settings: TrainingSettings
    generator: torch.Generator


def train(module: torch.nn.Module, task: FitTask) -> None:
    """Train `module` with Adam from its present parameters, in float32; end with the parameters of the least held-out
    loss.

    A Gaussian prior pulls parameters to their start values, as in anchored ensembles (Pearce et al. 2020). The same
    module, task and generator give the same parameters.
    """
    settings, training, held = task.settings, _in_single(task.training), _in_single(task.held)
    anchors = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    optimizer = torch.optim.Adam(module.parameters(), lr=settings.learning_rate)
    total = float(training.targets.weights.sum())
    steps = max(settings.steps, -(-settings.epochs * len(training) // settings.batch))
    workers = training.inputs.workers
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
    watch = _Watch(module, held, task)
    for step, places in zip(range(steps), batches(task), strict=False):
        targets = training.targets if len(places) == len(training) else training.targets.take(places)
        optimizer.zero_grad()
        training_loss = _loss(_residuals(module, training.inputs, places), targets, task)
        torch.autograd.backward(training_loss + _prior(module, anchors, settings, total) / workers.size)
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.grad = workers.all_reduce(parameter.grad)
        optimizer.step()
        schedule.step()
        if (step + 1) % max(1, steps // CHECKS) == 0 or step + 1 == steps:
            watch.look()
    watch.take_best()


def _in_single(examples: Examples) -> Examples:
    return Examples(examples.inputs.to(torch.float32), examples.targets)


def _loss(residuals: torch.Tensor, targets: Targets, task: FitTask) -> torch.Tensor:
    pairs = choose_pairs(targets, task.settings.pairs, task.generator)
    return loss(targets.base.float() + residuals, targets, pairs, task.settings.ranking_weight)


def _residuals(module: torch.nn.Module, inputs: AnyInputs, places: Sequence[int]) -> torch.Tensor:
    """Return the module's residuals at `places`, (p,).

    Each worker computes the residuals of its own rows. The all-reduced vector holds all residuals, and gradients flow
    only through a worker's own rows. Summed over workers, the parameter gradients equal the gradient of the full batch.
    """
    local_inputs, at = inputs.local(places)
    predicted = module(local_inputs)
    if inputs.workers.size == 1:
        return predicted
    detached = torch.zeros(len(places), dtype=predicted.dtype).index_put((at,), predicted.detach())
    return inputs.workers.all_reduce(detached).index_put((at,), predicted)


def _prior(
    module: torch.nn.Module, anchors: dict[str, torch.Tensor], settings: TrainingSettings, weight: float
) -> torch.Tensor:
    """Return the prior's loss for records whose weights sum to `weight`."""
    total = torch.zeros(())
    for name, parameter in module.named_parameters():
        deviation = settings.weight_deviation
        if name.startswith(SKIP):
            deviation = settings.prior_deviation
        elif name == LEVEL:
            deviation = LEVEL_DEVIATION
        total = total + ((parameter - anchors[name]) ** 2).sum() / (2 * deviation**2 * weight)
    return total


def batches(task: FitTask) -> Iterator[Sequence[int]]:
    """Yield the places of batches, epoch after epoch. A batch consists of runs from one occasion each."""
    occasions, batch = task.training.targets.occasions, task.settings.batch
    count = len(occasions)
    while count <= batch:
        yield range(count)
    while True:
        order = torch.randperm(count, generator=task.generator)
        runs = []
        for places in members_of(occasions[order].numpy()):
            runs += list(order[torch.from_numpy(places)].split(TOGETHER))
        mixed = torch.cat([runs[place] for place in torch.randperm(len(runs), generator=task.generator).tolist()])
        for places in mixed.split(batch):
            yield places.tolist()


class _Watch:
    """Keeps the parameters with the least held-out loss; the last parameters if too few records are held out."""

    def __init__(self, module: torch.nn.Module, held: Examples, task: FitTask) -> None:
        self._module, self._held, self._task = module, held, task
        self._useful = len(held) >= FEWEST_HELD
        self._least, self._best = float("inf"), dict[str, torch.Tensor]()
        self.look()

    def look(self) -> None:
        if not self._useful:
            return
        with torch.no_grad():
            held = self._held
            held_loss = float(_loss(self._module(held.inputs), held.targets, self._task))
        if held_loss < self._least:
            self._least = held_loss
            self._best = {name: tensor.detach().clone() for name, tensor in self._module.state_dict().items()}

    def take_best(self) -> None:
        if self._useful:
            self._module.load_state_dict(self._best)

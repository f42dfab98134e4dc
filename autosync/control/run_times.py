"""A joint generative model of the replicas' run times in a step, given the times of earlier steps (after BDSGD, Teng
and Wood 2018).

The logarithms of the times of step t depend on a latent vector z: z ~ N(m(h), s(h)), log x = f(z, h) + noise. A network
computes h from the last steps, where some times are known only by a lower bound. A second network infers z from h and x
(amortized inference). Both are fitted by the evidence lower bound (Kingma and Welling 2014). An unseen time contributes
the probability of exceeding its bound, as in survival analysis (censoring).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

LAST = 8
"""The number of steps from which the next step's times are inferred."""

LATENT, HIDDEN, DRAWS = 4, 32, 64
LEARNING_RATE = 5e-3
LEAST_NOISE = 0.02


@dataclass(frozen=True)
class CensoredTimes:
    """Times of steps: `logs` (steps, replicas) are logarithms of times, or of lower bounds where `seen` is False."""

    logs: Tensor
    seen: Tensor

    @classmethod
    def of(cls, times: Sequence[Sequence[float | None]], waits: Sequence[float]) -> CensoredTimes:
        """Build from `times` (steps, replicas) in seconds; None is a time that exceeded its step's wait."""
        logs = [
            [math.log(wait if time is None else time) for time in row] for row, wait in zip(times, waits, strict=True)
        ]
        return cls(torch.tensor(logs), torch.tensor([[time is not None for time in row] for row in times]))

    def windows(self) -> tuple[Tensor, Tensor]:
        """The network's inputs, (steps - LAST + 1, LAST x replicas x 2), and their centres, (steps - LAST + 1, 1).

        A centre is the median of the seen times of its window.
        """
        logs = self.logs.unfold(0, LAST, 1).transpose(1, 2)
        seen = self.seen.unfold(0, LAST, 1).transpose(1, 2)
        centre = torch.where(seen, logs, math.nan).flatten(1).nanmedian(1, keepdim=True).values
        near = (logs - centre[:, :, None]).flatten(1)
        return torch.cat([near, seen.flatten(1).to(logs.dtype)], 1), centre


class RunTimes(nn.Module):
    """The model for `replicas` replicas. All randomness has fixed seeds, so the same times give the same model."""

    def __init__(self, replicas: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            super().__init__()
            self.replicas = replicas
            self.summary = nn.Sequential(nn.Linear(2 * LAST * replicas, HIDDEN), nn.Tanh())
            self.prior = nn.Linear(HIDDEN, 2 * LATENT)
            self.guess = nn.Sequential(
                nn.Linear(HIDDEN + 2 * replicas, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2 * LATENT)
            )
            self.emission = nn.Sequential(nn.Linear(LATENT + HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, replicas))
            self.noise = nn.Parameter(torch.full((replicas,), -2.0))
            noise = torch.Generator().manual_seed(1)
            self._z_draws = torch.randn((DRAWS, LATENT), generator=noise)
            self._x_draws = torch.randn((DRAWS, replicas), generator=noise)

    def fit(self, rows: CensoredTimes, rounds: int) -> None:
        """Fit the model further to `rows`, which have more than LAST steps, for `rounds` rounds over all steps."""
        history, centre = rows.windows()
        history, centre = history[:-1], centre[:-1]
        logs, seen = rows.logs[LAST:] - centre, rows.seen[LAST:]
        optimizer = torch.optim.Adam(self.parameters(), LEARNING_RATE)
        draw = torch.Generator().manual_seed(len(logs))
        with _single_thread():
            for _ in range(rounds):
                optimizer.zero_grad()
                (-self._bound(history, logs, seen, draw).mean()).backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self.parameters(), 1.0)
                optimizer.step()

    def _bound(self, history: Tensor, logs: Tensor, seen: Tensor, draw: torch.Generator) -> Tensor:
        """The evidence lower bound of each step, (steps,)."""
        summary = self.summary(history)
        prior = _normal(self.prior(summary))
        guess = _normal(self.guess(torch.cat([summary, logs, seen.to(logs.dtype)], 1)))
        z = guess.mean + guess.stddev * torch.randn(guess.mean.shape, generator=draw)
        of_times = torch.distributions.Normal(self.emission(torch.cat([z, summary], 1)), self._deviation())
        over = torch.special.log_ndtr((of_times.mean - logs) / of_times.stddev)
        likely = torch.where(seen, of_times.log_prob(logs), over).sum(1)  # type: ignore[no-untyped-call]
        return likely - torch.distributions.kl_divergence(guess, prior).sum(1)

    @torch.no_grad()
    def draws(self, rows: CensoredTimes) -> Tensor:
        """Draw times in seconds, (DRAWS, replicas), for the step that follows the last `LAST` steps of `rows`."""
        history, centre = CensoredTimes(rows.logs[-LAST:], rows.seen[-LAST:]).windows()
        summary = self.summary(history)
        prior = _normal(self.prior(summary))
        z = prior.mean + prior.stddev * self._z_draws
        logs = self.emission(torch.cat([z, summary.expand(DRAWS, -1)], 1)) + self._deviation() * self._x_draws
        return torch.exp(logs + centre)

    def _deviation(self) -> Tensor:
        return LEAST_NOISE + nn.functional.softplus(self.noise)

    def weights(self) -> dict[str, Any]:
        """Return the weights as JSON."""
        return {name: value.tolist() for name, value in self.state_dict().items()}

    def load(self, weights: Mapping[str, Any]) -> None:
        """Set the weights. Raises `ValueError` or `TypeError` if `weights` do not belong to such a model."""
        tensors = {name: torch.tensor(value, dtype=torch.float32) for name, value in weights.items()}
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise ValueError("Weights must be finite.")
        try:
            self.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(str(error)) from None


@contextmanager
def _single_thread() -> Iterator[None]:
    """Use one torch thread in the block, so that sums have the same bits for any number of threads outside."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _normal(parameters: Tensor) -> torch.distributions.Normal:
    mean, deviation = parameters.chunk(2, 1)
    return torch.distributions.Normal(mean, 1e-3 + nn.functional.softplus(deviation))

"""A joint generative model of the replicas' run times in a step, given those of the steps before (after BDSGD, Teng
and Wood 2018).

The logarithms of the times of step t are of a latent vector z: z ~ N(m(h), s(h)), log x = f(z, h) + noise, where h is
what a network makes of the last steps, of which some times are only known to be over a bound. A second network guesses
z from h and x (amortized inference); both are fitted by the evidence lower bound (Kingma and Welling 2014). A time that
was not seen adds the probability of being over its bound, as survival analysis has it.
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
"""Steps that the next one's times are inferred from."""

LATENT, HIDDEN, DRAWS = 4, 32, 64
LEARNING_RATE = 5e-3
LEAST_NOISE = 0.02


@dataclass(frozen=True)
class Rows:
    """Times of steps: `logs` (steps, replicas) are logarithms, and where `seen` is False bounds from below."""

    logs: Tensor
    seen: Tensor

    @classmethod
    def of(cls, times: Sequence[Sequence[float | None]], waits: Sequence[float]) -> Rows:
        """The rows of `times`, in seconds; None is one that was over its step's wait."""
        logs = [
            [math.log(wait if each is None else each) for each in row] for row, wait in zip(times, waits, strict=True)
        ]
        return cls(torch.tensor(logs), torch.tensor([[each is not None for each in row] for row in times]))

    def windows(self) -> tuple[Tensor, Tensor]:
        """What is inferred from, (steps - LAST + 1, LAST x replicas x 2), and its centre, (steps - LAST + 1, 1): the
        median of what was seen.
        """
        logs = self.logs.unfold(0, LAST, 1).transpose(1, 2)
        seen = self.seen.unfold(0, LAST, 1).transpose(1, 2)
        centre = torch.where(seen, logs, math.nan).flatten(1).nanmedian(1, keepdim=True).values
        near = (logs - centre[:, :, None]).flatten(1)
        return torch.cat([near, seen.flatten(1).to(logs.dtype)], 1), centre


class RunTimes(nn.Module):
    """The model for so many replicas. All randomness is of fixed seeds, so that the same rows make the same model."""

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

    def fit(self, rows: Rows, rounds: int) -> None:
        """Fit it further to `rows`, of over LAST steps, for so many rounds over all of them."""
        history, centre = rows.windows()
        history, centre = history[:-1], centre[:-1]
        logs, seen = rows.logs[LAST:] - centre, rows.seen[LAST:]
        optimizer = torch.optim.Adam(self.parameters(), LEARNING_RATE)
        draw = torch.Generator().manual_seed(len(logs))
        with _one_thread():
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
    def draws(self, rows: Rows) -> Tensor:
        """Times that the step after the last `LAST` of `rows` may take, in seconds, (DRAWS, replicas)."""
        history, centre = Rows(rows.logs[-LAST:], rows.seen[-LAST:]).windows()
        summary = self.summary(history)
        prior = _normal(self.prior(summary))
        z = prior.mean + prior.stddev * self._z_draws
        logs = self.emission(torch.cat([z, summary.expand(DRAWS, -1)], 1)) + self._deviation() * self._x_draws
        return torch.exp(logs + centre)

    def _deviation(self) -> Tensor:
        return LEAST_NOISE + nn.functional.softplus(self.noise)

    def weights(self) -> dict[str, Any]:
        """The weights, as JSON."""
        return {name: value.tolist() for name, value in self.state_dict().items()}

    def load(self, weights: Mapping[str, Any]) -> None:
        """Take `weights` for its own. Raises `ValueError` or `TypeError` for those of no such model."""
        tensors = {name: torch.tensor(value, dtype=torch.float32) for name, value in weights.items()}
        if not all(bool(each.isfinite().all()) for each in tensors.values()):
            raise ValueError("Weights are finite.")
        try:
            self.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(str(error)) from None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums are of the same bits whatever number of threads others work with."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _normal(parameters: Tensor) -> torch.distributions.Normal:
    mean, deviation = parameters.chunk(2, 1)
    return torch.distributions.Normal(mean, 1e-3 + nn.functional.softplus(deviation))

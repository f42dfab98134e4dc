"""TPE, the tree-structured Parzen estimator, as Optuna has it.

Bergstra, Bardenet, Bengio, Kégl: "Algorithms for Hyper-Parameter Optimization", 2011; `multivariate` as in Falkner,
Klein, Hutter: "BOHB", 2018. What is being timed counts as bad for as long as nothing is known of it (`constant_liar`).
"""

import math
import random
import warnings
from collections.abc import Sequence
from typing import final

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from autosync.search.ledger import Observation
from autosync.search.rivals.encoding import Encoding
from autosync.search.rivals.knobs import Knobs
from autosync.search.rivals.one_by_one import STARTUP, Known, OneByOneSearch, one_by_one
from autosync.search.rivals.per_variable import PerVariable
from autosync.search.searcher import Asked
from autosync.spec import Strategy


@final
class TpeChooser:
    """Chooses by a study, which holds what was timed as points with log seconds, and is kept while that only grows."""

    def __init__(self, encoding: Encoding) -> None:
        self.name = f"tpe{encoding.suffix}"
        self._encoding = encoding
        self._distributions: dict[str, BaseDistribution] = {
            each.name: IntDistribution(0, each.choices - 1)
            if each.ordered
            else CategoricalDistribution(list(range(each.choices)))
            for each in encoding.dimensions
        }
        self._study: optuna.Study | None = None
        self._known: list[tuple[str, float]] = []

    def choose(self, known: Known, rng: random.Random) -> Strategy | None:
        if not self._distributions:
            return None
        study = self._study_of(known.observations, known.under_way)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                n_startup_trials=STARTUP, multivariate=True, constant_liar=True, seed=rng.randrange(2**32)
            )
        # The sampler is asked directly: a study would work out what its trials have in common before each of its own.
        trial = study.ask()
        params = sampler.sample_relative(study, study.get_trials(deepcopy=False)[trial.number], self._distributions)
        study.tell(trial, state=TrialState.FAIL)  # what comes of it is added as the point that was timed in the end
        return self._encoding.strategy(tuple(params[name] for name in self._distributions))

    def _study_of(self, observations: Sequence[Observation], under_way: Sequence[Strategy]) -> optuna.Study:
        """A study of these observations; with strategies under way a new one, since a study cannot forget them."""
        wanted = [(each.strategy.digest, each.median_seconds) for each in observations]
        if self._study is None or wanted[: len(self._known)] != self._known:
            self._study, self._known = _new_study(), []
        for each in observations[len(self._known) :]:
            self._study.add_trial(self._trial(each.strategy, math.log(each.median_seconds)))
        self._known = wanted
        if not under_way:
            return self._study
        study = _new_study()
        study.add_trials([each for each in self._study.get_trials(deepcopy=False) if each.state == TrialState.COMPLETE])
        study.add_trials([self._trial(each) for each in under_way])
        return study

    def _trial(self, strategy: Strategy, log_seconds: float | None = None) -> FrozenTrial:
        point = self._encoding.point(strategy)
        state = TrialState.RUNNING if log_seconds is None else TrialState.COMPLETE
        params = dict(zip(self._distributions, point, strict=True))
        return create_trial(params=params, distributions=self._distributions, value=log_seconds, state=state)


def _new_study() -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # or it says on stderr that it made a study
    return optuna.create_study(direction="minimize")


def tpe(asked: Asked) -> OneByOneSearch:
    """TPE on every variable's decision."""
    return one_by_one(asked, TpeChooser(PerVariable(asked.space)))


def tpe_on_knobs(asked: Asked) -> OneByOneSearch:
    """TPE on a few knobs."""
    return one_by_one(asked, TpeChooser(Knobs(asked.space)))

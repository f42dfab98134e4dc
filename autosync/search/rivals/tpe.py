"""TPE, the tree-structured Parzen estimator, in Optuna's implementation.

Bergstra, Bardenet, Bengio, Kégl: "Algorithms for Hyper-Parameter Optimization", 2011; `multivariate` as in Falkner,
Klein, Hutter: "BOHB", 2018. A strategy under way counts as bad until its time is known (`constant_liar`).
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
from autosync.search.searcher import SearcherArguments
from autosync.spec import Strategy


@final
class TpeChooser:
    """Chooses by a study of the timed strategies as points with log seconds. The study is kept while observations only
    grow.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.name = f"tpe{encoding.suffix}"
        self._encoding = encoding
        self._distributions: dict[str, BaseDistribution] = {
            dimension.name: IntDistribution(0, dimension.choices - 1)
            if dimension.ordered
            else CategoricalDistribution(list(range(dimension.choices)))
            for dimension in encoding.dimensions
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
        # Call the sampler directly: a study would compute the common search space of its trials before every trial.
        trial = study.ask()
        params = sampler.sample_relative(study, study.get_trials(deepcopy=False)[trial.number], self._distributions)
        study.tell(trial, state=TrialState.FAIL)  # the result is added later as the point that was really timed
        return self._encoding.strategy(tuple(params[name] for name in self._distributions))

    def _study_of(self, observations: Sequence[Observation], under_way: Sequence[Strategy]) -> optuna.Study:
        """Return a study of these observations; a new one with strategies under way, because a study cannot remove
        trials.
        """
        wanted = [(observation.strategy.digest, observation.median_seconds) for observation in observations]
        if self._study is None or wanted[: len(self._known)] != self._known:
            self._study, self._known = _new_study(), []
        for observation in observations[len(self._known) :]:
            self._study.add_trial(self._trial(observation.strategy, math.log(observation.median_seconds)))
        self._known = wanted
        if not under_way:
            return self._study
        study = _new_study()
        study.add_trials(
            [trial for trial in self._study.get_trials(deepcopy=False) if trial.state == TrialState.COMPLETE]
        )
        study.add_trials([self._trial(strategy) for strategy in under_way])
        return study

    def _trial(self, strategy: Strategy, log_seconds: float | None = None) -> FrozenTrial:
        point = self._encoding.point(strategy)
        state = TrialState.RUNNING if log_seconds is None else TrialState.COMPLETE
        params = dict(zip(self._distributions, point, strict=True))
        return create_trial(params=params, distributions=self._distributions, value=log_seconds, state=state)


def _new_study() -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # otherwise Optuna reports each new study on stderr
    return optuna.create_study(direction="minimize")


def tpe(arguments: SearcherArguments) -> OneByOneSearch:
    """Return TPE over every variable's decision."""
    return one_by_one(arguments, TpeChooser(PerVariable(arguments.space)))


def tpe_on_knobs(arguments: SearcherArguments) -> OneByOneSearch:
    """Return TPE over a few knobs."""
    return one_by_one(arguments, TpeChooser(Knobs(arguments.space)))

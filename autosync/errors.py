"""The errors that callers can catch.

    AutosyncError
    ├── SpecError       a noun (model, cluster, strategy, record) breaks one of its rules
    ├── SpaceError      a search space is declared wrongly, or holds nothing for this model
    ├── ModelError      a model function, its loss or its batch cannot be captured
    ├── ClusterError    nodes, devices or links are missing or unreachable
    ├── TrialError      a trial could not be run at all (a trial that merely fails is a record)
    │   └── NodesLostError  too few nodes are left for a trial
    ├── DatasetError    a file of records cannot be read or written
    ├── WriteError      a file cannot be written, or would be written through a link
    ├── CheckpointError (autosync.simulator)  a learned simulator cannot be saved or loaded
    ├── BenchError      (studies.bench)      a benchmark cannot run with its inputs
    ├── OptionsError    (autosync.tune)       an option is out of range, or options contradict each other
    └── TrainingError   (autosync.train)      training cannot begin or continue

Every message states the rule, the value that broke it, and the remedy.
"""

from collections.abc import Iterable
from typing import final


class AutosyncError(Exception):
    """Base of every error that autosync raises for its callers."""


class SpecError(AutosyncError, ValueError):
    """A noun breaks one of its rules."""


class SpaceError(AutosyncError, ValueError):
    """A search space is declared wrongly, or is empty for this model and cluster."""


class ModelError(AutosyncError, ValueError):
    """A model cannot be built or captured."""


class ClusterError(AutosyncError, RuntimeError):
    """Nodes, devices or links are missing or unreachable."""


class TrialError(AutosyncError, RuntimeError):
    """Trials cannot be run at all; a single failed trial is a record, not an error."""


class NodesLostError(TrialError):
    """Nodes were lost, and too few are left for a trial."""


class DatasetError(AutosyncError, RuntimeError):
    """A file of records cannot be read or written."""


@final
class WriteError(AutosyncError, RuntimeError):
    """A file cannot be written, or a link would redirect the write. `cause` is the system's error."""

    def __init__(self, sentence: str, cause: OSError) -> None:
        super().__init__(sentence, cause)
        self.cause = cause

    def __str__(self) -> str:
        return str(self.args[0])


@final
class BenchError(AutosyncError, RuntimeError):
    """A benchmark cannot run with its inputs."""


class TrainingError(AutosyncError, RuntimeError):
    """Training cannot begin or continue: a batch does not fit, a worker is lost, or a checkpoint cannot be used."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question to add to the refusal of an unknown `name`, if one of the `known` names resembles it; else ""."""
    from difflib import get_close_matches  # used by few processes, and loads `re`

    close = get_close_matches(name[:100], list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""

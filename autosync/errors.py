"""The errors a caller can meet.

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
    ├── BenchError      (autosync.studies.bench)      a benchmark cannot run on what it was given
    ├── OptionsError    (autosync.tune)       an option is out of range, or options contradict each other
    └── TrainingError   (autosync.train)      training cannot begin or go on

Every message states the rule, what came, and what to do.
"""

from typing import final


class AutosyncError(Exception):
    """Base of every error autosync raises for its callers."""


class SpecError(AutosyncError, ValueError):
    """A noun breaks one of its rules."""


class SpaceError(AutosyncError, ValueError):
    """A search space is declared wrongly, or is empty for this model and cluster."""


class ModelError(AutosyncError, ValueError):
    """A model cannot be built or captured."""


class ClusterError(AutosyncError, RuntimeError):
    """Nodes, devices or links are missing or unreachable."""


class TrialError(AutosyncError, RuntimeError):
    """Trials cannot be run at all; one failed trial is a record, not an error."""


class NodesLostError(TrialError):
    """Nodes have left, and too few are there for a trial."""


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
    """A benchmark cannot run on what it was given."""


class TrainingError(AutosyncError, RuntimeError):
    """Training cannot begin or go on: a batch does not fit, a worker is gone, a checkpoint cannot be used."""

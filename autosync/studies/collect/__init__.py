"""Collecting a dataset of runtimes: a plan of models and emulated clusters, worked off in rounds.

A *cell* is a model on a cluster. It has numbered *slots*, each a new strategy or a repeat of an earlier one; a record
on disk carries its cell (in `run`) and its slot (in `sequence`), and that is all the state there is.
"""

from autosync.studies.collect.plan import Plan, read_plan
from autosync.studies.collect.schedule import Slot, slots_of

__all__ = ["Plan", "Slot", "read_plan", "slots_of"]

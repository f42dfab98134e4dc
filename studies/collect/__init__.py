"""Collects a dataset of runtimes: runs a plan of models and emulated clusters in rounds.

A *cell* is a model on a cluster. A cell has numbered *slots*; a slot is a new strategy or a repeat of an earlier one. A
record on disk contains its cell (in `run`) and its slot (in `sequence`), and the records are the only state.
"""

from studies.collect.plan import Plan, read_plan
from studies.collect.schedule import Slot, slots_of

__all__ = ["Plan", "Slot", "read_plan", "slots_of"]

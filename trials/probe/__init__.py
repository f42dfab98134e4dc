"""Probing: measures a cluster's links and hosts by timed transfers, to replace assumed figures."""

from trials.probe.probing import ProbeSettings, Probing, probe_cluster
from trials.probe.timing import FlowTiming

__all__ = ["FlowTiming", "ProbeSettings", "Probing", "probe_cluster"]

"""Probing: what timed transfers say about a cluster's links and hosts, in place of what was assumed."""

from trials.probe.probing import ProbeSettings, Probing, probed
from trials.probe.timing import FlowTiming, Transport

__all__ = ["FlowTiming", "ProbeSettings", "Probing", "Transport", "probed"]

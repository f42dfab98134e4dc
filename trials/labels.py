"""What nodes tell Ray of themselves for autosync to read: labels and resources."""

from __future__ import annotations

__all__ = ["CORES_LABEL", "CORES_RESOURCE", "MACHINE_CORES_LABEL", "MACHINE_LABEL", "RACK_LABEL"]

CORES_LABEL = "autosync-cores"
"""Cores a node really has, perhaps parts of one; its CPUs are slots for Ray and may be more."""

CORES_RESOURCE = "autosync_cores"
"""The same in whole cores, for Ray's own eyes."""

RACK_LABEL = "rack"
"""The rack a node is in: `ray start --labels=rack=left`."""

MACHINE_LABEL, MACHINE_CORES_LABEL = "autosync-machine", "autosync-machine-cores"
"""Nodes that only play machines name the real one that they share, and say how many cores it has."""

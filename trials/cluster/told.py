"""What nodes tell Ray of themselves for autosync to read: labels and resources."""

from __future__ import annotations

__all__ = ["CORES_LABEL", "CORES_RESOURCE", "MACHINE_CORES_LABEL", "MACHINE_LABEL", "RACK_LABEL", "RAY_SETTINGS"]

CORES_LABEL = "autosync-cores"
"""The label with the cores that a node really has, perhaps parts of one; its CPUs are slots for Ray and may be more."""

CORES_RESOURCE = "autosync_cores"
"""The resource with the same number in whole cores, which Ray itself can read."""

RACK_LABEL = "rack"
"""The label with the rack that a node is in: `ray start --labels=rack=left`."""

MACHINE_LABEL, MACHINE_CORES_LABEL = "autosync-machine", "autosync-machine-cores"
"""Labels by which nodes that only play machines name the real one that they share, and say how many cores it has."""

RAY_SETTINGS = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray has its workers give way to every other process: beside a busy one they get a thirtieth of its share.
    "RAY_worker_niceness": "0",
    # Ray would begin with an idle Python process for each slot.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}

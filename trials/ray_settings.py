"""Settings of a Ray that is started for trials, by environment variables; what the user has set goes first."""

from __future__ import annotations

__all__ = ["RAY_SETTINGS"]

RAY_SETTINGS = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray has its workers give way to every other process: beside a busy one they get a thirtieth of its share.
    "RAY_worker_niceness": "0",
    # Ray would begin with an idle Python process for each slot.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}

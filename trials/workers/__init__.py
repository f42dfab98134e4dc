"""The processes that a trial or a training runs in."""

"""The processes that run a trial or a training."""

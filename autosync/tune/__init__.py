"""The Ray Tune edge and the command: the only room that knows all others."""

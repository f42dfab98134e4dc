"""Realizes strategies: places a model's values on devices, and builds the functions of a training step."""

"""Guided search: bred candidates, ranked by a simulator, timed in rounds."""

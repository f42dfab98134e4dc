"""Guided search: candidates bred and ranked on a simulator, then timed in rounds."""

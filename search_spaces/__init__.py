"""Declared search spaces: one file a model family, each with one constant, SPACE."""

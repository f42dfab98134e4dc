"""Tests of searches from Python."""

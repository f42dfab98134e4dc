"""Tests of the proof on PyTorch."""

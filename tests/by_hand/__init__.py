"""Benchmarks to be run by hand: `python -m tests.by_hand.NAME`."""

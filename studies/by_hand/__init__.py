"""Benchmarks to run by hand: `python -m studies.by_hand.NAME`."""

"""Benchmarks to be run by hand: `python -m tests.bench.NAME`."""

"""Benchmarks of the search: its results and cost compared with rivals, on recorded trials and on live clusters."""

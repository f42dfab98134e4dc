"""Benchmarks of the search: against its rivals on recorded trials and on live clusters, and what it costs."""

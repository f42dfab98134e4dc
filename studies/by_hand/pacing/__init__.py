"""Benchmarks of paced nodes: check that their steps keep the requested pace."""

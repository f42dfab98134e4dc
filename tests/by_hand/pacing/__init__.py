"""Benchmarks of paced nodes: whether their steps are what they are said to be."""

"""Experiments on the program itself: collects runtimes, evaluates simulators and benchmarks searches."""

"""Experiments on the program itself: runtimes collected, simulators evaluated, searches benchmarked."""

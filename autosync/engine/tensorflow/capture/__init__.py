"""Captures a model as a graph: its gradients, lookups and optimizer as pure functions, and their costs."""

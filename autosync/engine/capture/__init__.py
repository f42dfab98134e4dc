"""A model becomes a graph: its gradients, lookups and optimizer as pure functions, and what they cost."""

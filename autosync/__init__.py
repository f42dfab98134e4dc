"""Finds the fastest gradient-synchronization strategy for a model on a cluster, by measuring."""

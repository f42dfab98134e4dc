"""Strategies, clusters and quantities in words."""

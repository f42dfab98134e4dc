"""Clusters put together from what is stated: racks, checked files, and clusters in words."""

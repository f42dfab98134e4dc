"""Clusters from files, from Ray's description, or from a text: checks them, joins them to racks, and matches Ray
nodes.
"""

"""Clusters from files, from what Ray says, or from a text: checked, joined to racks, and given seats on Ray nodes."""

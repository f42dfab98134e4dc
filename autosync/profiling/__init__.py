"""Measures a replica's passes with PyTorch on this machine's device, as a profile for paced passes elsewhere.

PyTorch is imported only on use.
"""

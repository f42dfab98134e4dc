"""A replica's passes measured with PyTorch on this machine's device, as a profile for paced passes elsewhere.

PyTorch is imported only when something is called.
"""

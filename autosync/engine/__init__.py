"""The engines: each captures models of one framework and realizes strategies as running training steps.

An engine imports its framework only when it is used, so importing this package loads none.
"""

"""Competitors and what they share: processes in the hosts of an emulated cluster that answer questions.

TensorFlow and torch never meet in one process: each competitor is a program of its own (`engine_member`,
`mirrored_member`, `ddp_member`), started once a host and kept alive between turns; the program that asks loads neither.
"""

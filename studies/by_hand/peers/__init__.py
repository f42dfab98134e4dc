"""Competitors as processes in the hosts of an emulated cluster, controlled by questions and answers.

TensorFlow and torch are never loaded into the same process. Each competitor is a program of its own (`engine_member`,
`mirrored_member`, `ddp_member`), started once per host and kept alive between turns; the controlling program loads
neither framework.
"""

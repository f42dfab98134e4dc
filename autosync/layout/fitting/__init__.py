"""Schedules fitted to a cluster: trees over which links carry what they can, found by a linear program."""

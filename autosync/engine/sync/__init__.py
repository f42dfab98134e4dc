"""Synchronizers, one a file. Each lays out its traffic as ops placed on devices.

A synchronizer of dense shards gives every replica a value (`pull`) and takes every replica's gradient (`push`); one
of sparse shards does both for given rows. All take the mean over replicas, each replica weighing the same, and give
it back as `Update`s, which are applied once all gradients of the step are known to be in order.
"""

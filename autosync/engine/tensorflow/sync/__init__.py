"""Synchronizers, one a file. Each lays out its traffic as ops placed on devices.

A synchronizer of dense shards gives every replica a value (`pull`) and takes every replica's gradient (`push`). A
synchronizer of sparse shards does both for given rows. All take the mean over replicas with equal weights, and return
`Update`s, which are applied once the rule over all gradients of the step has been evaluated.
"""

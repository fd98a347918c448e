"""Shards of a suite: selection of tests, CI job index, and the Indexed Job.

Contents: code about the parts of a suite. `pod` is the program that runs in a shard's pod.
"""

"""Runs of several workers, shards and jobs on one cluster."""

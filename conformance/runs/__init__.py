"""Whole runs of pytest: what they print, write, share, refuse and leave behind.

Contents: tests that start further runs of pytest with `inner_runs`, on the cluster of the test or
on one of their own, and tests of what a run has written: reports, recordings.
"""

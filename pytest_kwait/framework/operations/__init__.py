"""Verbs that change objects and wait for the result, as kubectl's.

Contents: functions that write to the cluster, with the conditions that only they need.
"""

"""Waits on StatefulSets.

This folder holds conditions on a StatefulSet and its pods by ordinal, and their waits.
"""

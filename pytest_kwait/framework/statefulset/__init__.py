"""Waits on StatefulSets.

Admitted are conditions on a StatefulSet and its pods by ordinal, and their waits.
"""

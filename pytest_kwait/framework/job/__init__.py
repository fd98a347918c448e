"""Waits on Jobs and their pods.

Admitted are readers of a Job's fields, conditions on a Job, and their waits.
"""

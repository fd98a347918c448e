"""Waits on Jobs and their pods.

This folder holds readers of a Job's fields, conditions on a Job, and their waits.
"""

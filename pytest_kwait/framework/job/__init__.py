"""Waits on Jobs and their pods: conditions on a Job, and its waits."""

"""The interpreting runtime: containers whose shell and programs `busybox` interprets.

An image without busybox's programs has no program here: it is assumed to run until it is stopped.
"""

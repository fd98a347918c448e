"""Deciding where a pod runs.

What may enter: the scheduler's algorithm, its loop and its command. The embedded cluster shares
the algorithm, so nothing here may know how objects are read or written except the loop itself.
"""

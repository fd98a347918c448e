"""kubectl scripts, recorded on a real cluster and run on any.

What may enter: scripts (`scripts/`), recorded output (`recordings/`), and the modules that run,
record and compare them.
"""

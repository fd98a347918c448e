"""kubectl scripts, recorded on a real cluster and run on any.

Contents: scripts (`scripts/`), recorded output (`recordings/`), and the modules that run,
record and compare them.
"""

"""What people type: scripts of kubectl commands, recorded on a real cluster, run on any.

What may enter: scripts (`scripts/`), what was printed on a real cluster (`recordings/`), and the
little that runs, records and compares them.
"""

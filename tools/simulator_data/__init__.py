"""Generators of `pytest_kwait/simulator/data`.

Contents: programs that read a running API server or the pinned Go modules, their Go sources,
and the samples whose defaults are learned by dry-run creates.
"""

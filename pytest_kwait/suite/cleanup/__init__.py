"""Ownership and removal of the objects that a run creates.

Contents: labels and seals of owned objects, run Leases, the janitor. Nothing here creates
namespaces or reads settings.
"""

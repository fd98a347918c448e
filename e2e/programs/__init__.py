"""Suites of containers whose images are mapped to programs of the machine."""

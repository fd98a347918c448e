"""Suites on conditions: what `wait_for` takes, on any kind of object."""

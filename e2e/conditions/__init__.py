"""Suites on the conditions of `wait_for`, on any kind of object."""

"""Namespaces of tests: further ones, what holds them, and runs that may make none."""

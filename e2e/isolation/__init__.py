"""Namespaces of tests: further ones, blocked deletions, runs that may create none."""

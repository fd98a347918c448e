"""Namespaces of runs: limits, ids, given ones, what is left of them."""

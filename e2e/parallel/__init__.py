"""Parallel tests."""

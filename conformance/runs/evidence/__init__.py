"""Artifacts of failed tests, on every cluster."""

"""Faults injected by tests: waits notice them, and none outlives its test."""

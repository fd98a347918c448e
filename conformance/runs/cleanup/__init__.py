"""Cleanup after killed runs, which leaves other runs alone."""

"""Waits that cannot succeed."""

"""Schedulers of one's own."""

"""Schedulers that tests define."""

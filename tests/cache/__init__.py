"""Tests of `pytest_kwait.cache`; none sleeps, none opens a connection."""

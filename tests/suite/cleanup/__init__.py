"""Tests of pytest_kwait.suite.cleanup."""

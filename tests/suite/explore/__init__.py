"""Tests of pytest_kwait.suite.explore."""

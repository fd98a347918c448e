"""Tests of pytest_kwait.suite.lock."""

"""Tests of pytest_kwait.suite.report."""

"""Tests of pytest_kwait.suite.namespaces."""

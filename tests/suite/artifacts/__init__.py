"""Tests of pytest_kwait.suite.artifacts."""

"""Tests of pytest_kwait.suite.config."""

"""Tests of pytest_kwait.suite.election."""

"""Tests of `pytest_kwait.engine.failure`."""

"""Tests of `pytest_kwait.apimachinery`."""

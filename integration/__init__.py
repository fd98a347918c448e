"""Tests with real processes, kernels and clocks, folder by folder as `pytest_kwait/`."""

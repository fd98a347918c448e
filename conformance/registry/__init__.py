"""The embedded cluster's generated data, compared with a real API server.

Contents: tests of what `tools.simulator_data` generates.
"""

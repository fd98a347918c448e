"""The embedded cluster's generated data, compared with a real API server.

What may enter: tests of what `tools.simulator_data` generates.
"""

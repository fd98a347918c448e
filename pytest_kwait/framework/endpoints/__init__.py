"""Waits on the endpoints of services, by their EndpointSlices.

Contents: conditions on EndpointSlices with the Service and pods behind them, and their waits.
"""

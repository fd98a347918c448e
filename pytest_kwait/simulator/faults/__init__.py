"""Injected faults: of requests, image pulls, nodes and time, while a holder keeps them.

Contents: the effects of faults, their holders, and how they are requested over HTTP.
Nothing here knows of tests.
"""

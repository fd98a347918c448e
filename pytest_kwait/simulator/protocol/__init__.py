"""Data that the embedded cluster's process and its starters exchange.

Contents: structures and their encoding; no code of the cluster itself.
"""

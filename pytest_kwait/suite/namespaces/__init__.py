"""Namespaces of a run, and the permissions that creating them needs.

Contents: code about namespaces and about rights of the run's identity.
"""

"""Namespaces of a run, and the permissions that creating them needs.

May enter: code about namespaces and about rights of the run's identity.
"""

"""Handlers of the verbs on resources, as k8s.io/apiserver's pkg/endpoints/handlers.

Each handler turns a parsed request into a response. Subresources have a folder of their own.
"""

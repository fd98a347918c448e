"""Handlers of the verbs on resources, as k8s.io/apiserver's pkg/endpoints/handlers.

What may enter: one module for each verb that needs one, and what several verbs share. Each turns a
parsed request into a response. Subresources have a folder of their own.
"""

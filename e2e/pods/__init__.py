"""Pods and their containers."""

"""Pods that their hosts know."""

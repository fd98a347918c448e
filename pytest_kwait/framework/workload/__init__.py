"""Shared by all controllers of pods: their fields and base conditions.

Admitted is what at least two kinds of controllers use.
"""

"""Shared by all controllers of pods: their fields and base conditions.

This folder holds code that at least two kinds of controllers use.
"""

"""Placement of pods, and messages about unschedulable ones."""

"""Tests of the scheduler's types."""

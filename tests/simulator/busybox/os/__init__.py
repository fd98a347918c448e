"""Tests of the operating system."""

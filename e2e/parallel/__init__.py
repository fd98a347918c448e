"""Tests side by side."""

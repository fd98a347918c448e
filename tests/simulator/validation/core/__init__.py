"""Tests of the validation of the core API group."""

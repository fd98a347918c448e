"""Tests of the validation of volumes."""

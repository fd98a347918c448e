"""Tests of the busybox simulation."""

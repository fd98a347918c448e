"""Tests of the container runtime."""

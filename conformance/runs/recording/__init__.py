"""Recordings of failed tests, and their replay to kubectl and to waits."""

"""What a test breaks on purpose: each fault is seen by a wait, and none outlives its test."""

"""A runner of Jobs and its suite."""

"""The documentation, and the script that makes its tables."""

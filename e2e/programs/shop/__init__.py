"""The programs of a shop."""

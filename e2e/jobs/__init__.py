"""Jobs and their pods."""

"""A published operator."""

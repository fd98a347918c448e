"""Waits that cannot come true."""

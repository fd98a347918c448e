"""The report page, in a real browser."""

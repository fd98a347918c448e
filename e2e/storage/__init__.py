"""Storage: volumes, claims and attachments."""

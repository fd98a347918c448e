"""Local caches of what the server has."""

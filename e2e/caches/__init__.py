"""Local caches of the server's objects."""

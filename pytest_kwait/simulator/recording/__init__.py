"""Recordings: the history of namespaces in a file, and the journals that it is made of.

Contents: the file format and its writer and reader, and the journals that a running cluster keeps.
Serving a recording is `replay`'s, which also needs the API server.
"""

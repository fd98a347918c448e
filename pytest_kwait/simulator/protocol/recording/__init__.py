"""Recordings: the history of namespaces in a file, and the journals that it is made of.

Contents: the file format, its writer and reader, and the timeline of a recording as text.
"""

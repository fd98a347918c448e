"""API transcripts: requests, and the responses that a real API server gave.

Contents: transcripts (`transcripts/`), recorded responses (`recordings/`), and the modules
that send, record and compare them.
"""

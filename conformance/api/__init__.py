"""API transcripts: requests, and the responses that a real API server gave.

What may enter: transcripts (`transcripts/`), recorded responses (`recordings/`), and the modules
that send, record and compare them.
"""

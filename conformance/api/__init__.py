"""One suite for any cluster: what a client sees of the API, recorded from a real API server.

What may enter: transcripts of requests (`transcripts/`), what a real server answered
(`recordings/`), and the little that sends, records and compares them.
"""

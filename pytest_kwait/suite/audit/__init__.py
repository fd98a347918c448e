"""The audit of waits: who calls them, waits that prove nothing, and limits from durations.

Contents: findings and suggestions over records of waits, and their tables. No pytest, no request.
"""

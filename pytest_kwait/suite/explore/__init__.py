"""Explored tests: what runs next, how a failure is shrunk, and the verdict.

Contents: pure functions and state of one run. Running tests and talking to workers is
`plugin.explore`.
"""

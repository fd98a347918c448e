"""The failure of a wait: its timeline, evidence, redaction and message.

Facts about a failed wait are collected within a few seconds and rendered as text and JSON. The
decision that a wait has failed is made elsewhere.
"""

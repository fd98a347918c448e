"""The failure of a wait: its timeline, evidence, redaction and message.

What may enter: facts about a failed wait, collected within a few seconds, and
their rendering as text and JSON. Nothing here decides whether a wait has failed.
"""

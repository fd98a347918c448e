"""The failure of a wait: its timeline, evidence, redaction and message.

What may enter: facts about a wait that did not come true, collected within a few seconds, and
their rendering as text and JSON. Nothing here decides whether a wait has failed.
"""

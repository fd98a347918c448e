"""States that do not become what is awaited, one module per family.

Admitted here are pure functions from an object's JSON to a `TerminalState` or None. Where a message does
not say for sure that nothing will heal, the doom is one that may pass: to call hopeless what would
have come is the worse error.
"""

"""Terminal states: object states from which an awaited condition can no longer come true.

Contents: pure functions from an object's JSON to a `TerminalState` or None, one module per
family. Where a message does not prove that the state is permanent, the state is one that may
pass: failing a wait that would have succeeded is the worse error.
"""

"""Pure answers on the API's JSON: does a pod fit a node, how well, and how to say that it does not.

What may enter: functions of pods and nodes as plain dicts, and the arithmetic they need. No I/O, no
clock, no state that outlives a call except what `NodeInfo` sums up for the caller.
"""

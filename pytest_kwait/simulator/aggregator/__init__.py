"""APIServices: which groups the server has itself, and which are served by somebody else.

What may enter: what keeps the objects and the registry of groups in step, and what hands requests
on. Nothing here decides who may do what: that is asked before.
"""

"""Who may do what: roles, bindings, and what they come to for one request.

What may enter: rules of RBAC as upstream evaluates them, the objects that every cluster starts
with, the checks on writes of roles, and acting as somebody else. Nothing here reads HTTP or knows
how users are recognised; a member of `system:masters` is let through before any of it is asked.
"""

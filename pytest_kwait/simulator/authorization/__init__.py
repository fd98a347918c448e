"""Authorization: RBAC rules, bootstrap roles, escalation checks, impersonation.

Contents: RBAC as upstream evaluates it, the roles that every cluster starts with, the checks
on writes of roles, and impersonation. Nothing here reads HTTP or authenticates users. Members of
`system:masters` are allowed before any of it is asked.
"""

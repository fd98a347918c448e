"""RBAC rights that the verbs need, each proved by a user that has no other."""

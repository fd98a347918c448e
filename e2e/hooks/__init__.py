"""Hooks: code of a suite around namespaces, applies and waits."""

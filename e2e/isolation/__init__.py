"""Namespaces of tests: further ones, manifests that name others, names that are taken."""

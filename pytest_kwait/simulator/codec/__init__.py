"""Encoding and decoding of API objects: JSON, YAML, protobuf, and the types of built-in kinds.

Contents: what turns bytes or raw JSON values into objects of a kind, with Go's own messages.
It knows the scheme and schemas; no objects of the cluster, no requests, no rules of kinds.
"""

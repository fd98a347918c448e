"""A custom kind of a group of the test's own, with a default, rules and a status."""

from __future__ import annotations

import secrets
from typing import Any

__all__ = ["greetings", "group_name"]


def group_name() -> str:
    """A group that no other test has."""
    return f"x{secrets.token_hex(4)}.example.test"


def greetings(group: str) -> dict[str, Any]:
    """The definition of the kind `Greeting`, version `v1`."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"greetings.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "greetings", "singular": "greeting", "kind": "Greeting"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": _schema()},
                }
            ],
        },
    }


def _schema() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["text"],
                "properties": {
                    "text": {"type": "string", "minLength": 1},
                    "copies": {"type": "integer", "default": 1, "minimum": 0},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }

"""A custom kind in an API group of the test, and clients' tolerance of other groups."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from e2e.objects import definition, version
from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def group_name() -> str:
    """Return an API group unique to the test."""
    return f"x{secrets.token_hex(4)}.example.test"


def greetings(group: str) -> dict[str, Any]:
    """Return the definition of the kind `Greeting`, version `v1`."""
    v1 = version("v1", _schema(), subresources={"status": {}})
    return definition(group, "greetings", "Greeting", v1)


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


def once_groups_rest(
    look: Callable[[], T], lost: tuple[type[Exception], ...], texts: tuple[str, ...] = ("",)
) -> T:
    """Return the result of a client that discovers the kinds of each group in turn.

    It fails if a group is deleted meanwhile or has no server: those of other tests'
    definitions and API services come and go.

    Args:
        look: what it does.
        lost: what it raises then.
        texts: what that says, one of them.
    """
    found: list[T] = []

    def looked() -> bool:
        try:
            found.append(look())
        except lost as error:
            if not any(text in str(error) for text in texts):
                raise
            return False
        return True

    wait.poll_immediate(0.1, 240, looked)
    return found[0]

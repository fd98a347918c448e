"""What all checks of pod security share: who is at fault, in the server's words.

Source: k8s.io/pod-security-admission policy/{helpers,visitor,checks}.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "Check",
    "CheckResult",
    "container_names",
    "format_containers",
    "has_user_namespace",
    "is_windows_pod",
    "join_quoted",
    "list_containers",
    "pluralize",
    "security_context_field",
]


class CheckResult(NamedTuple):
    """What one check objects to.

    Args:
        reason: in few words.
        detail: who, and what they must do.
    """

    reason: str
    detail: str


# Takes the pod's metadata and its spec; None where nothing is wrong.
Check = Callable[["Obj", "Obj"], CheckResult | None]


def list_containers(spec: Obj) -> Iterator[Obj]:
    """Every container, in the order in which they start."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field, ())


def security_context_field(part: Obj, field: str) -> Any:
    """A field of the security context of a pod or a container; None where it is not set."""
    return part.get("securityContext", {}).get(field)


def container_names(containers: Iterable[Obj]) -> list[str]:
    """The containers' names."""
    return [container.get("name", "") for container in containers]


def join_quoted(items: Iterable[str]) -> str:
    """`"a", "b"`."""
    return ", ".join(f'"{item}"' for item in items)


def pluralize(word: str, items: Sequence[object]) -> str:
    """The word as it counts the items."""
    return word if len(items) == 1 else f"{word}s"


def format_containers(names: Sequence[str]) -> str:
    """`container "a"`, `containers "a", "b"`."""
    return f"{pluralize('container', names)} {join_quoted(names)}"


def is_windows_pod(spec: Obj) -> bool:
    """Whether the pod says that it is for Windows."""
    return bool(spec.get("os", {}).get("name") == "windows")


def has_user_namespace(spec: Obj) -> bool:
    """Whether the pod's users are not the node's."""
    return spec.get("hostUsers") is False

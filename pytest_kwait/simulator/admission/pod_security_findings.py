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
    "Finding",
    "containers_of",
    "context_of",
    "in_user_namespace",
    "named",
    "named_containers",
    "on_windows",
    "plural",
    "quoted",
]


class Finding(NamedTuple):
    """What one check objects to.

    Args:
        reason: in few words.
        detail: who, and what they must do.
    """

    reason: str
    detail: str


# Takes the pod's metadata and its spec; None where nothing is wrong.
Check = Callable[["Obj", "Obj"], Finding | None]


def containers_of(spec: Obj) -> Iterator[Obj]:
    """Every container, in the order in which they start."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field, ())


def context_of(part: Obj, field: str) -> Any:
    """A field of the security context of a pod or a container; None where it is not set."""
    return part.get("securityContext", {}).get(field)


def named(containers: Iterable[Obj]) -> list[str]:
    """The containers' names."""
    return [container.get("name", "") for container in containers]


def quoted(items: Iterable[str]) -> str:
    """`"a", "b"`."""
    return ", ".join(f'"{item}"' for item in items)


def plural(word: str, items: Sequence[object]) -> str:
    """The word as it counts the items."""
    return word if len(items) == 1 else f"{word}s"


def named_containers(names: Sequence[str]) -> str:
    """`container "a"`, `containers "a", "b"`."""
    return f"{plural('container', names)} {quoted(names)}"


def on_windows(spec: Obj) -> bool:
    """Whether the pod says that it is for Windows."""
    return bool(spec.get("os", {}).get("name") == "windows")


def in_user_namespace(spec: Obj) -> bool:
    """Whether the pod's users are not the node's."""
    return spec.get("hostUsers") is False

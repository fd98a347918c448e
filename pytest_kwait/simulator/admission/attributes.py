"""Admission attributes: the request that a plugin sees.

Source: k8s.io/apiserver pkg/admission/{attributes,errors,interfaces}.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pytest_kwait.simulator.api_errors import StatusError, forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["AdmissionPlugin", "Attributes", "Operation", "Reinvocation"]

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Reinvocation:
    """The second round that a request goes through where webhooks changed it.

    Args:
        due: whether there is to be one.
        active: whether it is under way.
        seen: the object after the last webhook of the first round.
        invoked: the webhooks that were asked and want to be asked again where it is needed.
        wanted: those for whom it is needed.
    """

    due: bool = False
    active: bool = False
    seen: Obj | None = None
    invoked: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()

    def note(self, identity: str) -> None:
        """One was asked that wants to be asked again where it is needed."""
        self.invoked |= {identity}

    def require(self) -> None:
        """Something changed: whoever was asked before is to be asked again."""
        self.wanted |= self.invoked
        self.invoked = frozenset()


@dataclass(slots=True)
class Attributes:
    """One request that changes something.

    Args:
        operation: what it does.
        kind: the resource it is made on.
        namespace: where; for namespaces themselves their name, empty for what is cluster-wide.
        name: the object's name; empty as long as it is to be made up.
        obj: the object as it is to be; None for a deletion.
        old: the object as it is; None for a new one.
        subresource: `status`, `resize`…; empty for the object itself.
        caller: on whose behalf.
        options: the request's own options, for deletions.
    """

    operation: Operation
    kind: Kind
    namespace: str
    name: str
    obj: Obj | None
    old: Obj | None
    subresource: str
    caller: Caller
    options: Obj = field(default_factory=dict)
    requested: Kind | None = None
    """The version of the kind that the request names, where it is stored in another one."""
    content: Kind | None = None
    """The kind of the object itself, where the subresource has one of its own: Eviction, Scale."""
    reinvocation: Reinvocation = field(default_factory=Reinvocation)
    policy_reinvocation: Reinvocation = field(default_factory=Reinvocation)
    """The same for policies; whether there is a second round is told by `again`."""
    on_store: list[Callable[[], None]] = field(default_factory=list)
    """Called once nothing refuses the request any more, just before the object is stored."""

    def forbidden(self, why: str, causes: Sequence[Obj] | None = None) -> StatusError:
        """A refusal in the server's words; an object without a name is told by its prefix."""
        name = self.name
        if not name:
            metadata = (self.obj or {}).get("metadata", {})
            name = metadata.get("name") or metadata.get("generateName") or "Unknown"
        return forbidden(self.kind.group, self.kind.plural, name, why, causes)

    def stored(self) -> None:
        """Let the plugins note what the request takes."""
        for note in self.on_store:
            note()


class AdmissionPlugin:
    """One admission plugin: it may change what comes, and may refuse what has become of it."""

    buckets: frozenset[str] | None = None
    """The resources that it looks at, as they are stored; None for all. Others it is not asked."""

    def admit(self, attributes: Attributes) -> None:
        """Change the object before it is validated.

        Raises:
            StatusError: it is refused.
            Unanswered: a webhook is to be asked first.
        """

    def validate(self, attributes: Attributes) -> None:
        """Look at the object after it was validated.

        Raises:
            StatusError: it is refused.
        """

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

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Reinvocation:
    """The second round of admission, after webhooks changed the object.

    Args:
        due: whether it is required.
        active: whether it is in progress.
        seen: the object after the last webhook of the first round.
        invoked: the invoked webhooks that allow reinvocation.
        wanted: the webhooks to invoke again.
    """

    due: bool = False
    active: bool = False
    seen: Obj | None = None
    invoked: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()

    def record_invoked(self, identity: str) -> None:
        """Record an invoked webhook that allows reinvocation."""
        self.invoked |= {identity}

    def require_reinvocation(self) -> None:
        """Mark all webhooks invoked so far for reinvocation, after a change."""
        self.wanted |= self.invoked
        self.invoked = frozenset()


@dataclass(slots=True)
class Attributes:
    """A request that changes something.

    Args:
        kind: the resource.
        namespace: the namespace; of a namespace its own name, empty for cluster-scoped objects.
        name: the object's name; empty until it is generated.
        obj: the new object; None for a deletion.
        old: the stored object; None for a creation.
        subresource: `status`, `resize`…; empty for the object itself.
        caller: the user and the write options.
        options: the delete options.
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
    requested_kind: Kind | None = None
    """The version of the kind in the request, if the stored version differs."""
    subresource_kind: Kind | None = None
    """The kind of the body, if the subresource has its own: Eviction, Scale."""
    reinvocation: Reinvocation = field(default_factory=Reinvocation)
    policy_reinvocation: Reinvocation = field(default_factory=Reinvocation)
    """The reinvocation of policies; webhooks and policies share `reinvocation.due`."""
    on_store: list[Callable[[], None]] = field(default_factory=list)
    """Callbacks just before the object is stored, after all checks."""

    def run_callbacks(self) -> None:
        """Call the callbacks `on_store`."""
        for callback in self.on_store:
            callback()

    def forbidden(self, why: str, causes: Sequence[Obj] | None = None) -> StatusError:
        """Return the error of a denial; it names unnamed objects by their prefix."""
        name = self.name
        if not name:
            metadata = (self.obj or {}).get("metadata", {})
            name = metadata.get("name") or metadata.get("generateName") or "Unknown"
        return forbidden(self.kind.group, self.kind.plural, name, why, causes)


def get_new_pod(attributes: Attributes) -> Obj | None:
    """Return the pod that a request creates; None for any other request."""
    if attributes.kind.bucket != "pods" or attributes.subresource:
        return None
    return attributes.obj if attributes.operation == "CREATE" else None


class AdmissionPlugin:
    """An admission plugin: may change an object, and deny it after validation."""

    buckets: frozenset[str] | None = None
    """The resources that the plugin handles, as they are stored; None for all."""

    def admit(self, attributes: Attributes) -> None:
        """Change the object before its validation.

        Raises:
            StatusError: the request is denied.
        """

    def validate(self, attributes: Attributes) -> None:
        """Check the object after its validation.

        Raises:
            StatusError: the request is denied.
        """

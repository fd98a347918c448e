"""API discovery: the resources of a server, and resolution of their names."""

from __future__ import annotations

import difflib
import logging
import re
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.client.errors import make_unreadable_error
from pytest_kwait.client.resource import BUILT_IN, Resource, split_api_version
from pytest_kwait.client.responses import Object, decode_object
from pytest_kwait.client.transport import format_seconds
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.wait import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kwait.client.transport import Transport
    from pytest_kwait.clock import Deadline

# One answer for all groups if the server supports it; the older form otherwise.
_ACCEPT = ",".join(
    (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    )
)
_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?")
_log = logging.getLogger("pytest_kwait.client")


class Discovery:
    """The resources of one server, read on first use and again for unknown names."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._resources: tuple[Resource, ...] | None = None

    def resolve(self, kind: str, api_version: str | None, *, deadline: Deadline) -> Resource:
        """Return the resource with a name; built-in ones without a request.

        Raises:
            InvalidArgument: the server has no such kind.
        """
        resource = match_resource(BUILT_IN.values(), kind, api_version)
        if resource is not None:
            return resource
        known = self._resources
        if known is not None:
            resource = match_resource(known, kind, api_version)
        if resource is None:
            # A definition may have been created since.
            known = self._read(deadline)
            resource = match_resource(known, kind, api_version)
        if resource is None:
            raise _make_unknown_error((*BUILT_IN.values(), *(known or ())), kind, api_version)
        return resource

    def list_kinds(self, *, deadline: Deadline) -> tuple[Resource, ...]:
        """Return all kinds of the server, each in its preferred version."""
        first: dict[str, Resource] = {}
        for resource in self._read(deadline):
            first.setdefault(resource.qualified, resource)
        return tuple(first.values())

    def _read(self, deadline: Deadline) -> tuple[Resource, ...]:
        timeout = min(deadline.remaining, threading.TIMEOUT_MAX)
        if not self._lock.acquire(timeout=timeout):
            raise DeadlineExceeded(
                f"GET /apis: another thread did not read it in {format_seconds(timeout)}"
            )
        try:
            resources: list[Resource] = []
            for root in ("/api", "/apis"):
                try:
                    resources += self._of_root(root, deadline)
                except (AttributeError, KeyError, TypeError) as error:
                    raise make_unreadable_error(
                        "GET", root, 200, repr(error).encode(), "a list of API groups"
                    ) from error
            self._resources = tuple(resources)
            return self._resources
        finally:
            self._lock.release()

    def _of_root(self, root: str, deadline: Deadline) -> Iterator[Resource]:
        answer = self._get(root, _ACCEPT, deadline)
        if answer.get("kind") == "APIGroupDiscoveryList":
            yield from _parse_aggregated(answer)
        elif answer.get("kind") == "APIVersions":
            for version in answer.get("versions") or ():
                yield from self._of_version(f"{root}/{version}", "", version, deadline)
        else:
            for group in answer.get("groups") or ():
                for version in _sort_preferred_first(group):
                    path = f"{root}/{group['name']}/{version}"
                    yield from self._of_version(path, group["name"], version, deadline)

    def _of_version(
        self, path: str, group: str, version: str, deadline: Deadline
    ) -> Iterator[Resource]:
        try:
            answer = self._get(path, "application/json", deadline)
        except ApiError as error:
            # An extension server that is down must not hide all other kinds, and a version may
            # be gone since the list of groups was read.
            if error.status not in {404, 503}:
                raise
            _log.info("%s is left out of the known kinds: %s", path, error)
            return
        yield from _parse_resource_list(answer, group, version)

    def _get(self, path: str, accept: str, deadline: Deadline) -> Object:
        answer = self._transport.send("GET", path, accept=accept, deadline=deadline)
        try:
            return decode_object(answer.data)
        except msgspec.DecodeError as error:
            raise make_unreadable_error(
                "GET", path, answer.status, answer.data, "a list of API groups"
            ) from error


def match_resource(
    resources: Iterable[Resource], kind: str, api_version: str | None = None
) -> Resource | None:
    """Return the first resource with a name; None without one.

    The names of a resource (plural, singular, kind) take precedence over short names, and an exact
    group over a prefix of one; then the order of `resources` decides, the core group first.

    Args:
        resources: the candidates, in order of preference.
        kind: a kind, plural, singular or short name in any case, `plural.group`, or
            `kind.version.group`.
        api_version: the required `apiVersion`; None for any.

    Source: cli-runtime's resource builder and RESTMapper (meta/restmapper.go, ResourcesFor).
    """
    candidates = list(resources)
    for name, group, version in _iterate_meanings(kind, api_version):
        for named in (_has_name, _has_short_name):
            for in_group in (str.__eq__, str.startswith):
                for resource in candidates:
                    if (
                        named(resource, name)
                        and (group is None or in_group(resource.group, group))
                        and version in {None, resource.version}
                    ):
                        return resource
                if not group:
                    break
    return None


def _iterate_meanings(
    kind: str, api_version: str | None
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield possible names, groups and versions of a name; None for unspecified parts."""
    name, dot, rest = kind.lower().partition(".")
    if api_version is not None:
        group, version = split_api_version(api_version)
        yield name, group, version
        return
    if not dot:
        yield name, None, None
        return
    version, dot, group = rest.partition(".")
    if dot and _VERSION.fullmatch(version):
        yield name, group, version
    if rest:
        yield name, rest, None


def _has_name(resource: Resource, name: str) -> bool:
    return name in {resource.plural, resource.singular, resource.kind.lower()}


def _has_short_name(resource: Resource, name: str) -> bool:
    return name in resource.short_names


def _parse_aggregated(answer: Object) -> Iterator[Resource]:
    for group in answer.get("items") or ():
        name = (group.get("metadata") or {}).get("name") or ""
        for version in group.get("versions") or ():
            for entry in version.get("resources") or ():
                kind = (entry.get("responseKind") or {}).get("kind")
                if not kind:
                    # Only a subresource is served, as for pod metrics of old servers.
                    continue
                yield Resource(
                    group=name,
                    version=version["version"],
                    plural=entry["resource"],
                    kind=kind,
                    namespaced=entry.get("scope") == "Namespaced",
                    singular=entry.get("singularResource") or kind.lower(),
                    short_names=tuple(entry.get("shortNames") or ()),
                    verbs=frozenset(entry.get("verbs") or ()),
                    subresources=frozenset(
                        part["subresource"] for part in entry.get("subresources") or ()
                    ),
                )


def _parse_resource_list(answer: Object, group: str, version: str) -> Iterator[Resource]:
    entries: list[dict[str, Any]] = answer.get("resources") or []
    parts: dict[str, set[str]] = {}
    for entry in entries:
        plural, _, part = entry["name"].partition("/")
        if part:
            parts.setdefault(plural, set()).add(part)
    for entry in entries:
        if "/" not in entry["name"]:
            yield Resource(
                group=group,
                version=version,
                plural=entry["name"],
                kind=entry["kind"],
                namespaced=bool(entry.get("namespaced")),
                singular=entry.get("singularName") or entry["kind"].lower(),
                short_names=tuple(entry.get("shortNames") or ()),
                verbs=frozenset(entry.get("verbs") or ()),
                subresources=frozenset(parts.get(entry["name"], ())),
            )


def _sort_preferred_first(group: Object) -> list[str]:
    preferred = (group.get("preferredVersion") or {}).get("version")
    versions = [entry["version"] for entry in group.get("versions") or ()]
    return sorted(versions, key=lambda version: version != preferred)


def _make_unknown_error(
    resources: Iterable[Resource], kind: str, api_version: str | None
) -> InvalidArgument:
    names: dict[str, list[str]] = {}
    for resource in resources:
        for name in (resource.plural, resource.singular, resource.kind.lower()):
            text = f"{resource.qualified} ({resource.api_version})"
            if text not in names.setdefault(name, []):
                names[name].append(text)
    near = difflib.get_close_matches(kind.lower().partition(".")[0], names, n=3)
    hits = list(dict.fromkeys(text for name in near for text in names[name]))[:3]
    valid = "the server has no such kind" + (f" in {api_version}" if api_version else "")
    return InvalidArgument("kind", kind, f"{valid}; near: {', '.join(hits)}" if hits else valid)

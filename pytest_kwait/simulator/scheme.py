"""The kinds that the cluster serves: names, verbs, subresources, scopes.

Built-in kinds come from `data/resources.json.gz`, which `tools/simulator_data/generate.py` makes
from a running API server. Custom kinds are added and removed while the cluster runs.
Source: k8s.io/apimachinery pkg/runtime/scheme.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.simulator.api_errors import qualified_resource
from pytest_kwait.simulator.generated_data import read_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.store import Change, Entry

_STORED_AS_OTHER_VERSION = frozenset({("autoscaling", "v1", "horizontalpodautoscalers")})
"""Older versions whose objects are converted."""

_SHARED = {"events.events.k8s.io": "events"}
"""Kinds that show the objects of another group's bucket."""


class VersionWebhook(Protocol):
    """The webhook that converts the objects of a custom kind between versions."""

    def convert(self, obj: Obj, kind: Kind) -> Obj:
        """Convert an object during a write."""

    async def convert_for_read(self, obj: Obj, kind: Kind) -> Obj:
        """Convert an object for a read."""

    async def convert_entries(self, entries: Sequence[Entry], kind: Kind) -> list[Entry]:
        """Convert the entries of a list."""

    async def convert_change(self, change: Change, kind: Kind) -> Change:
        """Convert a change for a watch."""


class CustomKindSchema(Protocol):
    """The schema and the rules of a custom kind; see `apiextensions.custom_resource_schema`."""

    schema: Obj
    scale: Obj | None
    printer_columns: list[Obj]
    selectable: tuple[str, ...]
    deprecation: str
    tolerated: list[str]
    terminating: bool
    conversion: VersionWebhook | None

    @property
    def shape(self) -> Any:
        """The type of its objects, for field ownership: a `codec.schema.Shape`."""

    def decode(self, obj: Obj, decoded: Any) -> Obj:
        """`obj` without unknown fields, with defaults and clean metadata; `decoded`: a Decoder."""

    def prune_converted(self, obj: Obj) -> Obj:
        """An object of another version without the fields that this one does not have."""

    def with_defaults(self, obj: Obj) -> Obj:
        """An object with the defaults of this version."""

    def read_stored(self, obj: Obj) -> Obj:
        """A stored object by this schema, which may be newer."""

    def errors(self, new: Obj, old: Obj | None = None) -> list[FieldError]:
        """The errors of a new object, or of a change of `old`."""

    def status_errors(self, new: Obj, old: Obj) -> list[FieldError]:
        """The errors of a change of the status."""


@dataclass(frozen=True, slots=True)
class SubResource:
    """A subresource, for example `pods/status`."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Kind:
    """One resource in one version of its group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: Mapping[str, SubResource] = field(default_factory=dict)
    storage_version_hash: str = ""
    storage: str = ""
    list_kind: str = ""
    converted: bool = False
    """True if its objects are stored in another version."""
    structure: CustomKindSchema | None = None
    """The schema and the rules of a custom kind; None for built-in ones."""
    hidden: bool = False
    """True if its objects are stored in this version, which is not served."""

    @cached_property
    def api_version(self) -> str:
        """`v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def qualified(self) -> str:
        """`pods`, `jobs.batch`: the name of the resource whatever its version."""
        return qualified_resource(self.group, self.plural)

    @cached_property
    def bucket(self) -> str:
        """The key of its objects in the store; kinds with one bucket share their objects."""
        return self.storage or self.qualified

    @cached_property
    def stored(self) -> bool:
        """Return whether its objects are stored in this version."""
        return self.bucket == self.qualified and not self.converted

    @cached_property
    def has_status(self) -> bool:
        """Return whether status is a subresource."""
        return "status" in self.subresources

    @property
    def custom(self) -> bool:
        """Return whether a CustomResourceDefinition defines it."""
        return self.structure is not None


class Scheme:
    """The registry of kinds."""

    def __init__(self) -> None:
        data = read_data("resources.json.gz")
        self.version: Obj = data["version"]
        self.groups: list[Obj] = data["groups"]
        self._served: dict[tuple[str, str], dict[str, Kind]] = {}
        self._preferred: dict[str, Kind] = {}
        self._built_in: set[str] = set()
        self.webhook_converted: set[str] = set()
        """The custom resources whose versions a webhook converts."""
        self.elsewhere: dict[tuple[str, str], Obj] = {}
        """The APIServices of groups and versions that other servers serve."""
        self.discovered: dict[tuple[str, str], list[Obj]] = {}
        """The resources of those groups, in the form of aggregated discovery."""
        for group_version, entries in data["resources"].items():
            group, _, version = group_version.rpartition("/")
            self._built_in.add(group)
            for kind in _build_kinds(group, version, entries):
                self._place(kind)

    def _place(self, kind: Kind) -> None:
        self._served.setdefault((kind.group, kind.version), {})[kind.plural] = kind
        self._preferred.setdefault(kind.qualified, kind)

    def group_versions(self) -> Iterator[tuple[str, str]]:
        """Return all served groups and versions."""
        return iter(self._served)

    def built_in(self, group: str) -> bool:
        """Return whether a group has built-in kinds."""
        return group in self._built_in

    def is_built_in(self, resource: str) -> bool:
        """Return whether `jobs.batch` is a built-in resource."""
        kind = self._preferred.get(resource)
        return kind is not None and not kind.custom

    def served(self, group: str, version: str) -> dict[str, Kind] | None:
        """Return the kinds of a group's version by plural name, None if it is not served."""
        return self._served.get((group, version))

    def find(self, resource: str) -> Kind | None:
        """Return the kind of `pods` or `jobs.batch` in its preferred version."""
        return self._preferred.get(resource)

    def __getitem__(self, resource: str) -> Kind:
        return self._preferred[resource]

    def __iter__(self) -> Iterator[Kind]:
        return iter(tuple(self._preferred.values()))

    def of_kind(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind of an object's `apiVersion` and `kind`."""
        group, _, version = api_version.rpartition("/")
        for candidate in (self._served.get((group, version)) or {}).values():
            if candidate.kind == kind:
                return candidate
        return None

    def stored(self) -> Iterator[Kind]:
        """Return the kinds that have stored objects, one per bucket."""
        for kind in tuple(self._preferred.values()):
            if "list" in kind.verbs and kind.stored:
                yield kind

    def add(self, kinds: Iterable[Kind]) -> None:
        """Serve the versions of a custom kind; the storage version is the preferred one.

        A built-in resource of the same name stays.
        """
        for kind in kinds:
            if self.is_built_in(kind.qualified):
                continue
            if not kind.hidden:
                self._served.setdefault((kind.group, kind.version), {})[kind.plural] = kind
            if kind.stored:
                self._preferred[kind.qualified] = kind
            if kind.structure is not None and kind.structure.conversion is not None:
                self.webhook_converted.add(kind.qualified)

    def remove(self, resource: str) -> None:
        """Stop serving a custom kind."""
        if self.is_built_in(resource):
            return
        self._preferred.pop(resource, None)
        self.webhook_converted.discard(resource)
        for group_version, kinds in tuple(self._served.items()):
            for plural, kind in tuple(kinds.items()):
                if kind.qualified == resource and kind.custom:
                    del kinds[plural]
            if not kinds:
                del self._served[group_version]


def _build_kinds(group: str, version: str, entries: list[Obj]) -> Iterator[Kind]:
    subresources: dict[str, dict[str, SubResource]] = {}
    for entry in entries:
        plural, slash, name = entry["name"].partition("/")
        if slash:
            subresources.setdefault(plural, {})[name] = SubResource(
                name=name,
                group=entry.get("group", group),
                version=entry.get("version", version),
                kind=entry["kind"],
                verbs=tuple(entry["verbs"]),
            )
    for entry in entries:
        if "/" in entry["name"]:
            continue
        name = qualified_resource(group, entry["name"])
        yield Kind(
            group=group,
            version=version,
            plural=entry["name"],
            kind=entry["kind"],
            namespaced=entry["namespaced"],
            singular=entry["singularName"],
            short_names=tuple(entry.get("shortNames", ())),
            categories=tuple(entry.get("categories", ())),
            verbs=tuple(entry["verbs"]),
            subresources=subresources.get(entry["name"], {}),
            storage_version_hash=entry.get("storageVersionHash", ""),
            storage=_SHARED.get(name, ""),
            list_kind=entry["kind"] + "List",
            converted=(group, version, entry["name"]) in _STORED_AS_OTHER_VERSION,
        )

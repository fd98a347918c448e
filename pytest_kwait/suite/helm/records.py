"""Releases as helm has recorded them, and how messages describe them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.failure.redaction import SECRET_VALUES
from pytest_kwait.suite.manifests import read_manifests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kwait.suite.helm.program import HelmResult, ReleaseName
    from pytest_kwait.suite.manifests import Objects

INSTALLED: dict[str, dict[str, HelmRelease]] = {}
"""The ready releases of this process by namespace and name, for the messages of later failures."""

_MAX_NOTES = 10
"""Lines of a chart's notes in a message."""
_PULLED = re.compile(r"\A(?:(?:Pulled|Digest): .*\n)+")


@dataclass(frozen=True, slots=True)
class HelmHook:
    """A hook of a release.

    Args:
        name: the name of its object.
        kind: the kind of its object.
        events: when it runs, for example `pre-install`.
        phase: its last run: `Succeeded`, `Failed`, `Running`, `Unknown`; empty for none.
    """

    name: str
    kind: str
    events: tuple[str, ...]
    phase: str

    def __str__(self) -> str:
        events = ",".join(self.events)
        return f"hook {events} {self.kind.lower()}/{self.name}: {self.phase or 'has not run'}"


@dataclass(frozen=True, slots=True)
class HelmRelease:
    """A release as helm has recorded it, and the objects that it has.

    Args:
        name: its name.
        namespace: its namespace.
        revision: its revision, from 1.
        status: helm's status, for example `deployed`.
        chart: name and version of the chart, for example `shop-0.1.0`.
        app_version: the version of the application; empty for none.
        notes: the chart's notes as rendered; empty for none.
        hooks: its hooks, with their last runs.
        objects: the objects of its manifest as the server has them, in helm's order.
    """

    name: str
    namespace: str
    revision: int
    status: str
    chart: str
    app_version: str
    notes: str
    hooks: tuple[HelmHook, ...]
    objects: list[dict[str, Any]]

    def __repr__(self) -> str:
        return f"<HelmRelease {self}>"

    def __str__(self) -> str:
        return (
            f"release {self.name} in {self.namespace}: revision {self.revision}, {self.status}, "
            f"chart {self.chart or 'unknown'}"
        )


@dataclass(frozen=True, slots=True)
class Record:
    """A release as helm has recorded it.

    Args:
        name: its name and namespace.
        fields: the JSON of `helm status`.
        chart: name and version of the chart.
        app_version: the version of the application; empty for none.
    """

    name: ReleaseName
    fields: Mapping[str, Any]
    chart: str
    app_version: str

    @property
    def manifests(self) -> Objects:
        """The objects of its manifest, without hooks."""
        return parse_manifest(self.fields)

    def hook_manifests(self, *phases: str) -> Objects:
        """Return the objects of the hooks whose last run has one of these phases."""
        hooks = [hook for hook in self.fields.get("hooks") or () if get_phase(hook) in phases]
        return [obj for hook in hooks for obj in parse_manifest(hook)]

    def release(self, objects: Objects) -> HelmRelease:
        """Return the release, with the objects that it has."""
        info = self.fields.get("info") or {}
        hooks = [
            HelmHook(
                hook.get("name") or "",
                hook.get("kind") or "",
                tuple(hook["events"]),
                get_phase(hook),
            )
            for hook in self.fields.get("hooks") or ()
        ]
        return HelmRelease(
            self.name.name,
            self.name.namespace,
            self.fields.get("version") or 0,
            info.get("status") or "unknown",
            self.chart,
            self.app_version,
            info.get("notes") or "",
            tuple(hooks),
            objects,
        )


def get_phase(hook: Mapping[str, Any]) -> str:
    """Return the phase of the last run of a hook; empty if it has not run."""
    return (hook.get("last_run") or {}).get("phase") or ""


def parse_manifest(recorded: Mapping[str, Any]) -> Objects:
    """Return the objects of a recorded manifest; their Secrets' values are masked from now on."""
    text = recorded.get("manifest") or ""
    # Without a line break a text could be a path.
    documents = read_manifests([text + "\n"], ()) if text.strip() else []
    for document in documents:
        SECRET_VALUES.learn_manifest(document.object)
    return [document.object for document in documents]


def read_output_manifests(output: str) -> str:
    """Return the YAML of an output.

    Helm writes lines about a chart that it has pulled before, and Helm 3 no separators between the
    files of `crds/`: a document ends where a field comes a second time.
    """
    lines: list[str] = []
    fields: set[str] = set()
    for line in _PULLED.sub("", output).splitlines():
        field = line.partition(":")[0] if line[:1].isalpha() else ""
        if line.startswith("---"):
            fields.clear()
        elif field in fields:
            lines.append("---")
            fields.clear()
        if field:
            fields.add(field)
        lines.append(line)
    return "\n".join(lines)


def read_output_record(name: ReleaseName, done: HelmResult) -> Record | None:
    """Return the record that `--output json` has printed; None if it has printed something else."""
    try:
        fields = json.loads(done.stdout)
        chart = fields["chart"]["metadata"]
        title = f"{chart['name']}-{chart['version']}"
        return Record(name, fields, title, chart.get("appVersion") or "")
    except (ValueError, TypeError, KeyError):
        return None


def describe_installed(namespaces: Iterable[str]) -> str:
    """Return lines about the ready releases in namespaces; empty for none."""
    releases = (release for place in namespaces for release in INSTALLED.get(place, {}).values())
    return "\n".join(line for release in releases for line in describe_release(release))


def describe_release(release: HelmRelease, manifests: Objects | None = None) -> list[str]:
    """Return lines about a release, its hooks, its objects and its notes, for a message.

    Args:
        manifests: the objects of its manifest; with them, the missing ones are named.
    """
    lines = [str(release), *(f"  {hook}" for hook in release.hooks)]
    if manifests is not None:
        there = [_title(obj) for obj in release.objects]
        missing = [title for title in map(_title, manifests) if title not in there]
        lines.append(f"  exist: {', '.join(there) or 'none'}")
        lines += [f"  missing: {', '.join(missing)}"] if missing else []
    notes = release.notes.strip().splitlines()
    lines += [f"  notes: {line}".rstrip() for line in notes[:_MAX_NOTES]]
    return lines


def _title(obj: Mapping[str, Any]) -> str:
    return f"{obj['kind'].lower()}/{obj['metadata']['name']}"

"""Helm, where it is installed: releases of charts in the namespace of a test.

helm renders, installs and records. What it has created is awaited and owned here: a wait of this
package ends early, with the reason, where `helm --wait` ends at its limit. Hooks are awaited by
helm itself; a hook that runs for longer than a moment is watched beside it.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.client.resource import CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.failure.redaction import SECRET_VALUES
from pytest_kwait.errors import (
    ApiError,
    ClusterError,
    InvalidArgument,
    KwaitError,
    WaitFailed,
    WaitTimeout,
    describe_value,
)
from pytest_kwait.framework.operations.ready import is_awaited
from pytest_kwait.suite.manifests import (
    InvalidManifest,
    find_file,
    is_path,
    read_manifests,
    read_values,
)
from pytest_kwait.temp_dir import TempDir
from pytest_kwait.wait.context import Canceled, DeadlineExceeded, parse_stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.suite.manifests import ManifestWriter, Objects

Values: TypeAlias = "str | Path | Mapping[str, Any] | Sequence[str | Path | Mapping[str, Any]]"
"""A path, YAML text or a dict, or a sequence of these, of which later ones win."""

INSTALLED: dict[str, dict[str, HelmRelease]] = {}
"""The ready releases of this process by namespace and name, for the messages of later failures."""

_MAX_SHOWN = 2000
"""Characters of an output in a message."""
_MAX_NOTES = 10
"""Lines of a chart's notes in a message."""

_SLICE = 0.2
"""Seconds between two looks at what stops a command."""
_HOOK_DELAY = 2.0
"""Seconds after which a command that still runs may be awaiting a hook."""
_END_DELAY = 2.0
"""Seconds that helm has to end by itself once its hook has failed."""
_LIMIT_MARGIN = 5
"""Seconds by which helm's own limit is later than that of the call, whose message says more."""
_READ_LIMIT = 30.0
"""Seconds of a command that reads a release."""

_LOOK = 1.0
"""Seconds for which a hook that has failed is looked at."""

_HOOK_WAITS = {"Job": "wait_for_job_complete", "Pod": "wait_for_pod_success"}
"""Waits for hooks that helm awaits, by kind."""
_NAMED_WAITS = {
    (
        CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "CustomResourceDefinition",
    ): "wait_for_crd_established",
    ("apiregistration.k8s.io/v1", "APIService"): "wait_for_api_service_available",
}
"""Waits for cluster-scoped objects, by version and kind."""

_RELEASE_NAME = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
_RESOURCE_POLICY = "helm.sh/resource-policy"

_DEFINITIONS = ("crds", "charts")
"""Folders of a chart that may have definitions."""

_CHART_FLAGS = frozenset(
    {
        "--devel",
        "--insecure-skip-tls-verify",
        "--pass-credentials",
        "--plain-http",
        "--verify",
    }
)
"""Flags of every command that fetches a chart.

Source: helm/pkg/cmd/flags.go addChartPathOptionsFlags.
"""
_CHART_OPTIONS = frozenset(
    {
        "--ca-file",
        "--cert-file",
        "--key-file",
        "--keyring",
        "--password",
        "--repo",
        "--username",
        "--version",
    }
)
"""Options with a value of the same commands."""

_INSTALL_FLAGS = frozenset({"--install", "-i"})
"""Flags with which `helm upgrade` installs a release that is not there."""

_PULLED = re.compile(r"\A(?:(?:Pulled|Digest): .*\n)+")

_VARIABLES = re.compile(r"HELM_KUBE.*|HELM_NAMESPACE|HELM_DEBUG|HELM_DRIVER|KUBECONFIG")
"""Variables that would choose another cluster, namespace or storage, or change the output."""
_SET_OPTION = re.compile(r"--set(-[a-z]+)?")
_CREDENTIAL_OPTION = re.compile(r"--(password|username)")
_ASSIGNED = re.compile(r"=(?:\\.|[^,\\])*")


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
class HelmResult:
    """The result of a helm command.

    Args:
        command: the command as a shell takes it, with values left out.
        exit_code: its exit code.
        stdout: its standard output.
        stderr: its standard error.
    """

    command: str
    exit_code: int
    stdout: str
    stderr: str

    def __repr__(self) -> str:
        return (
            f"HelmResult(command={self.command!r}, exit_code={self.exit_code}, "
            f"stderr={describe_value(self.stderr)})"
        )


class HelmError(KwaitError):
    """A helm command that failed.

    Args:
        result: its result.
    """

    def __init__(self, result: HelmResult) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        output = (self.result.stderr or self.result.stdout).strip()[-_MAX_SHOWN:]
        code = self.result.exit_code
        return f"{self.result.command} ended with exit code {code}: {output or 'no output'}"


@dataclass(frozen=True, slots=True)
class ReleaseName:
    """The name of a release, and its namespace."""

    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class ChartArguments:
    """The arguments of a command that names a chart, as they were given.

    Args:
        chart: a folder, an archive, `oci://…`, a URL, or `repository/name`.
        values: the values.
        repo: the URL of a repository; None for none.
        version: the version of the chart; None for the newest.
        args: further arguments of helm.
    """

    chart: str | Path
    values: Values | None
    repo: str | None
    version: str | None
    args: tuple[str, ...]


def _list_values(values: Any) -> Sequence[Any]:
    """Return values in their order: of a list its items."""
    if values is None:
        return ()
    several = isinstance(values, Sequence) and not isinstance(values, str)
    return values if several else (values,)


def _select_chart_options(args: Iterable[str]) -> list[str]:
    """Return those of helm's arguments that say how a chart is fetched."""
    selected = []
    words = iter(args)
    for word in words:
        option = word.partition("=")[0]
        if option in _CHART_FLAGS | _CHART_OPTIONS:
            selected.append(word)
        if word in _CHART_OPTIONS:
            selected += [value for value in (next(words, None),) if value is not None]
    return selected


class _Arguments:
    """The arguments of a chart and its values as helm takes them; dicts become files meanwhile.

    Args:
        folders: where relative paths are looked for, first match wins.

    Raises:
        InvalidArgument: the chart or the values are of a wrong type.
        InvalidManifest: there is no such file, or a file of values is not a YAML mapping.
    """

    def __init__(self, folders: Iterable[Path], given: ChartArguments) -> None:
        self._folders = list(folders)
        self._folder: TempDir | None = None
        self.shown: dict[str, str] = {}
        """Arguments that messages show otherwise."""
        self.path = self._find_chart(given.chart, given.repo)
        self.values = [
            option
            for value in _list_values(given.values)
            for option in ("--values", self._read(value))
        ]
        chart = str(given.chart if self.path is None else self.path)
        repo = [] if given.repo is None else ["--repo", given.repo]
        version = [] if given.version is None else ["--version", given.version]
        self.args = [chart, *repo, *version, *self.values, *given.args]
        self.chart = [chart, *repo, *version, *_select_chart_options(given.args)]
        """What finds the chart, for commands that take no values."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._folder is not None:
            self._folder.remove()

    def _find_chart(self, chart: Any, repo: str | None) -> Path | None:
        """Return the path of a folder or archive; None for a chart that helm fetches."""
        if not isinstance(chart, str | Path) or not str(chart):
            valid = "use a folder, an archive, 'oci://…', a URL, or 'repository/name'"
            raise InvalidArgument("chart", chart, valid)
        if isinstance(chart, Path):
            return find_file(chart, self._folders).absolute()
        if repo is not None or "://" in chart:
            return None
        try:
            return find_file(chart, self._folders).absolute()
        except InvalidManifest:
            if chart.startswith((".", "/")) or chart.endswith(".tgz"):
                raise
            return None

    def _read(self, value: Any) -> str:
        """Return the path of a file of values."""
        if not isinstance(value, str | Path | Mapping):
            raise InvalidArgument(
                "values", value, "use a path, YAML text, a dict, or a list of these"
            )
        read = read_values(value, self._folders) or [({}, "")]
        fields, place = read[-1]
        if len(read) > 1 or not isinstance(fields, dict):
            raise InvalidManifest(place, "is not one YAML mapping, as values of a chart are")
        if is_path(value):
            return str(find_file(value, self._folders).absolute())
        if self._folder is None:
            self._folder = TempDir("helm-")
        path = self._folder.path / f"values-{len(self.shown) + 1}.json"
        path.write_text(json.dumps(fields))
        self.shown[str(path)] = f"{{{', '.join(map(str, fields))}}}"
        return str(path)

    @property
    def may_have_definitions(self) -> bool:
        """False for a folder without definitions of its own or of subcharts."""
        path = self.path
        return (
            path is None or path.is_file() or any((path / each).exists() for each in _DEFINITIONS)
        )


@dataclass(frozen=True, slots=True)
class _Record:
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
        return _parse(self.fields)

    def hook_manifests(self, *phases: str) -> Objects:
        """Return the objects of the hooks whose last run has one of these phases."""
        hooks = [hook for hook in self.fields.get("hooks") or () if _phase(hook) in phases]
        return [obj for hook in hooks for obj in _parse(hook)]

    def release(self, objects: Objects) -> HelmRelease:
        """Return the release, with the objects that it has."""
        info = self.fields.get("info") or {}
        hooks = [
            HelmHook(
                hook.get("name") or "", hook.get("kind") or "", tuple(hook["events"]), _phase(hook)
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


def _phase(hook: Mapping[str, Any]) -> str:
    return (hook.get("last_run") or {}).get("phase") or ""


def _parse(recorded: Mapping[str, Any]) -> Objects:
    """Return the objects of a recorded manifest; their Secrets' values are masked from now on."""
    text = recorded.get("manifest") or ""
    # Without a line break a text could be a path.
    documents = read_manifests([text + "\n"], ()) if text.strip() else []
    for document in documents:
        SECRET_VALUES.learn_manifest(document.object)
    return [document.object for document in documents]


def _read_output_manifests(output: str) -> str:
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


class HelmReleases:
    """Installs and changes releases, awaits what they consist of, and owns it.

    Args:
        writer: applies definitions and owns objects.
        folders: returns the folders where relative paths are looked for.
        wait: calls the wait or verb of a name.
        request: sends a request, again after errors that pass.
    """

    def __init__(
        self,
        session: ApiSession,
        *,
        writer: ManifestWriter,
        folders: Callable[[], Iterable[Path]],
        wait: Callable[..., Any],
        request: Callable[[Callable[[Deadline], Any]], Any],
    ) -> None:
        self._session = session
        self._writer = writer
        self._folders = folders
        self._wait = wait
        self._request = request
        self._installed: set[ReleaseName] = set()

    def install(
        self, command: str, name: ReleaseName, chart: ChartArguments, limits: Limits, *, wait: bool
    ) -> HelmRelease:
        """Run `helm install` or `helm upgrade`; return the release once it is ready."""
        with _Arguments(self._folders(), chart) as arguments:
            args = [command, name.name, *arguments.args]
            shown = _format_command(name, args, arguments.shown)
            args += ["--output", "json"]
            installs = command == "install" or not _INSTALL_FLAGS.isdisjoint(chart.args)
            if installs and "--skip-crds" not in args:
                if arguments.may_have_definitions:
                    self._apply_definitions(name, arguments, limits)
                args.append("--skip-crds")
            return self._change(name, args, shown, limits, wait=wait)

    def rollback(
        self,
        name: ReleaseName,
        revision: int | None,
        args: Sequence[str],
        limits: Limits,
        *,
        wait: bool,
    ) -> HelmRelease:
        """Run `helm rollback`; return the release once it is ready."""
        number = [] if revision is None else [str(revision)]
        command = ["rollback", name.name, *number, *args]
        return self._change(name, command, _format_command(name, command), limits, wait=wait)

    def uninstall(
        self, name: ReleaseName, args: Sequence[str], limits: Limits, *, wait: bool
    ) -> None:
        """Run `helm uninstall`; return once the objects of the release are gone."""
        command = ["uninstall", name.name, *args]
        shown = _format_command(name, command)
        record = self._read(name)
        before = [] if record is None else self._list_live(record)
        self._forget(name)
        try:
            self._run(name, command, shown, limits)
        except KwaitError as error:
            self._explain(error, name, shown)
            raise
        for obj in before if wait else ():
            metadata = obj["metadata"]
            if (metadata.get("annotations") or {}).get(_RESOURCE_POLICY) == "keep":
                continue
            place = metadata.get("namespace")
            try:
                self._wait(
                    "wait_for_gone",
                    self._resolve(obj),
                    metadata["name"],
                    metadata["uid"],
                    namespace=place,
                    **limits.options(),
                )
            except (WaitFailed, WaitTimeout) as error:
                error.add_note(f"after {shown}")
                raise

    def template(
        self, name: ReleaseName, chart: ChartArguments, deadline: Deadline, version: str
    ) -> Objects:
        """Return the objects of `helm template`, for the version and the kinds of this cluster."""
        kinds = self._request(lambda deadline: self._session.list_kinds(deadline=deadline))
        served = dict.fromkeys(
            text for kind in kinds for text in (kind.api_version, f"{kind.api_version}/{kind.kind}")
        )
        with _Arguments(self._folders(), chart) as arguments:
            args = ["template", name.name, *arguments.args]
            shown = _format_command(name, args, arguments.shown)
            args += ["--kube-version", version, "--api-versions", ",".join(served)]
            done = self._call(name, args, shown, deadline)
        return _parse({"manifest": _read_output_manifests(done.stdout)})

    def _apply_definitions(self, name: ReleaseName, arguments: _Arguments, limits: Limits) -> None:
        """Apply the definitions in `crds/` of a chart, which helm neither owns nor awaits."""
        args = ["show", "crds", *arguments.chart]
        done = self._call(name, args, _format_command(name, args), limits.deadline)
        if definitions := _read_output_manifests(done.stdout):
            self._writer.apply(read_manifests([definitions + "\n"], ()))

    def _change(
        self, name: ReleaseName, args: Sequence[str], shown: str, limits: Limits, *, wait: bool
    ) -> HelmRelease:
        self._forget(name)
        try:
            done = self._run(name, args, shown, limits)
        except BaseException as error:
            # What a command that has failed in the middle has made is owned as well.
            self._explain(error, name, shown)
            raise
        record = _read_output(name, done) or self._read(name)
        if record is None:
            raise ClusterError(f"helm has no release {name.name} after {shown}")
        release = record.release(self._own(record))
        if wait:
            try:
                self._await(release, limits)
            except (WaitFailed, WaitTimeout) as error:
                _add_notes(error, describe_release(release))
                raise
            release = replace(release, objects=self._list_live(record))
        INSTALLED.setdefault(name.namespace, {})[name.name] = release
        self._installed.add(name)
        return release

    def close(self) -> None:
        """Leave these releases out of the messages of later failures."""
        for name in list(self._installed):
            self._forget(name)

    def _forget(self, name: ReleaseName) -> None:
        self._installed.discard(name)
        INSTALLED.get(name.namespace, {}).pop(name.name, None)

    def _run(
        self, name: ReleaseName, args: Sequence[str], shown: str, limits: Limits
    ) -> HelmResult:
        """Return the result of a command that may run hooks.

        Raises:
            HelmError: it failed.
            WaitFailed: a hook has failed, or cannot end.
            WaitTimeout: it did not end in time.
        """
        # Helm's own limit comes later, as its message says less.
        limit = f"{math.ceil(limits.deadline.remaining) + _LIMIT_MARGIN}s"
        with self._started(name, [*args, "--timeout", limit], shown) as process:
            try:
                done = self._finish(process, name, shown, limits)
            except WaitFailed:
                # Helm may see the failure too, and record it.
                with suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=_END_DELAY)
                raise
        if done.exit_code:
            self._check_hooks(name, limits)
            raise HelmError(done)
        return done

    def _finish(
        self, process: subprocess.Popen[str], name: ReleaseName, shown: str, limits: Limits
    ) -> HelmResult:
        """Return the result of a command; meanwhile await the hook that it awaits."""
        clock = self._session.clock
        is_stopped = parse_stop(limits.given.get("stop") or (lambda: False))
        next_look = clock.monotonic() + _HOOK_DELAY
        while True:
            try:
                out, err = process.communicate(timeout=_SLICE)
            except subprocess.TimeoutExpired:
                if is_stopped():
                    raise Canceled(f"{shown} was stopped") from None
            else:
                return HelmResult(shown, process.returncode, out, err)
            if limits.deadline.expired:
                raise _make_timeout(shown, limits.seconds)
            if clock.monotonic() >= next_look:
                self._await_hooks(name, limits, process)
                next_look = clock.monotonic() + _HOOK_DELAY

    def _await_hooks(
        self, name: ReleaseName, limits: Limits, process: subprocess.Popen[str]
    ) -> None:
        """Wait until the running hooks have ended, or helm has."""
        is_stopped = parse_stop(limits.given.get("stop") or (lambda: False))
        for hook in self._list_hooks(name, "Running"):
            options = limits.options() | {
                "stop": lambda: is_stopped() or process.poll() is not None
            }
            with suppress(Canceled):
                self._await_hook(hook, name, options)

    def _check_hooks(self, name: ReleaseName, limits: Limits) -> None:
        """Raise the failure of a hook with its pods and their logs, if they are still there."""
        for hook in self._list_hooks(name, "Failed", "Running"):
            with suppress(WaitTimeout, ApiError, DeadlineExceeded):
                self._await_hook(hook, name, limits.options() | {"timeout": _LOOK})

    def _await_hook(self, hook: dict[str, Any], name: ReleaseName, options: dict[str, Any]) -> None:
        """Wait until a hook has ended; raise its failure unless helm has deleted it."""
        place = hook["metadata"].get("namespace") or name.namespace
        try:
            self._wait(_HOOK_WAITS[hook["kind"]], hook, namespace=place, **options)
        except WaitFailed:
            there = self._find(hook, name)
            if there is not None and there["metadata"]["uid"] == hook["metadata"]["uid"]:
                raise

    def _list_hooks(self, name: ReleaseName, *phases: str) -> Objects:
        """Return the Jobs and Pods of hooks in these phases, as the server has them.

        None if they cannot be read: the command's own failure says more.
        """
        try:
            record = self._read(name)
            manifests = [] if record is None else record.hook_manifests(*phases)
            awaited = (obj for obj in manifests if obj["kind"] in _HOOK_WAITS)
            found = [self._find(obj, name) for obj in awaited]
        except (HelmError, ApiError, WaitTimeout, DeadlineExceeded):
            return []
        return [obj for obj in found if obj is not None]

    def _await(self, release: HelmRelease, limits: Limits) -> None:
        """Wait until the objects of a release are ready, each by its own kind's wait."""
        started = [obj for obj in release.objects if is_awaited(obj)]
        if started:
            place = release.namespace
            self._wait("wait_for_objects_ready", started, namespace=place, **limits.options())
        for kind, wait in _NAMED_WAITS.items():
            for obj in release.objects:
                if (obj["apiVersion"], obj["kind"]) == kind:
                    self._wait(wait, obj["metadata"]["name"], **limits.options())

    def _own(self, record: _Record) -> Objects:
        """Own what a release consists of, as far as it outlives the namespace; return it."""
        name = record.name
        for secret in self._list_records(name):
            self._writer.adopt(SECRETS, secret)
        objects = self._list_live(record)
        for obj in objects:
            notes = obj["metadata"].get("annotations") or {}
            # One that was there before, and that helm has refused, is not the release's.
            if (notes.get(_RELEASE_NAME), notes.get(_RELEASE_NAMESPACE)) == (
                name.name,
                name.namespace,
            ):
                self._writer.adopt(self._resolve(obj), obj)
        # Before the run of a hook, an object of its name is another's.
        for made in record.hook_manifests("Succeeded", "Failed", "Running", "Unknown"):
            there = self._find(made, name)
            if there is not None:
                self._writer.adopt(self._resolve(there), there)
        return objects

    def _list_records(self, name: ReleaseName) -> Objects:
        """Return the Secrets in which helm has recorded a release."""
        selector = f"owner=helm,name={name.name}"
        listed = self._request(
            lambda deadline: self._session.list(
                SECRETS, name.namespace, label_selector=selector, deadline=deadline
            )
        )
        return [item.object for item in listed.items]

    def _explain(self, error: BaseException, name: ReleaseName, shown: str) -> None:
        """Own what a failed command has made, and add its state to the error."""
        if isinstance(error, ClusterError):
            return
        if isinstance(error, WaitFailed | WaitTimeout):
            error.add_note(f"during {shown}")
        try:
            record = self._read(name)
            if record is not None:
                release = record.release(self._own(record))
                _add_notes(error, describe_release(release, record.manifests))
        except (KwaitError, DeadlineExceeded) as trouble:
            error.add_note(f"the release could not be read: {trouble}")

    def _read(self, name: ReleaseName) -> _Record | None:
        """Return what helm has recorded of a release; None if it knows none of the name."""
        fields = self._read_json(name, "status")
        if not fields:
            return None
        chart = self._read_json(name, "get", "metadata")
        title = f"{chart.get('chart')}-{chart.get('version')}"
        return _Record(name, fields, title, chart.get("appVersion") or "")

    def _read_json(self, name: ReleaseName, *command: str) -> dict[str, Any]:
        args = [*command, name.name]
        shown = _format_command(name, args)
        deadline = Deadline.after(_READ_LIMIT, self._session.clock)
        try:
            done = self._call(name, [*args, "--output", "json"], shown, deadline)
        except HelmError as error:
            if "release: not found" in error.result.stderr:
                return {}
            raise
        read: dict[str, Any] = json.loads(done.stdout)
        return read

    def _list_live(self, record: _Record) -> Objects:
        """Return the objects of a release's manifest that exist, as the server has them."""
        found = (self._find(obj, record.name) for obj in record.manifests)
        return [obj for obj in found if obj is not None]

    def _find(self, obj: Mapping[str, Any], name: ReleaseName) -> dict[str, Any] | None:
        try:
            resource = self._resolve(obj)
        except InvalidArgument:
            # Its definition failed, or is gone.
            return None
        place = obj["metadata"].get("namespace") or name.namespace
        where = place if resource.namespaced else None
        try:
            found = self._request(
                lambda deadline: self._session.get(
                    resource, obj["metadata"]["name"], where, deadline=deadline
                )
            )
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return {"apiVersion": resource.api_version, "kind": resource.kind, **found}

    def _resolve(self, obj: Mapping[str, Any]) -> Resource:
        resource: Resource = self._request(
            lambda deadline: self._session.resolve(
                obj["kind"], obj["apiVersion"], deadline=deadline
            )
        )
        return resource

    def _call(
        self, name: ReleaseName, args: Sequence[str], shown: str, deadline: Deadline
    ) -> HelmResult:
        """Return the result of a command that changes nothing.

        Raises:
            HelmError: it failed.
            WaitTimeout: it did not end in time.
        """
        limit = max(deadline.remaining, 0.1)
        with self._started(name, args, shown) as process:
            try:
                out, err = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                raise _make_timeout(shown, limit) from None
        done = HelmResult(shown, process.returncode, out, err)
        if done.exit_code:
            raise HelmError(done)
        return done

    @contextmanager
    def _started(
        self, name: ReleaseName, args: Sequence[str], shown: str
    ) -> Iterator[subprocess.Popen[str]]:
        """Yield a running command, which is ended with the block."""
        program = shutil.which("helm")
        if program is None:
            raise ClusterError(
                f"{shown} cannot run: no helm is in PATH; install it from "
                "https://helm.sh/docs/intro/install/"
            )
        options = [
            "--kube-context" if option == "--context" else option
            for option in ("--namespace", name.namespace, *self._session.kubectl_args)
        ]
        environment = {
            variable: value
            for variable, value in os.environ.items()
            if not _VARIABLES.fullmatch(variable)
        }
        # In a shared one a command finds the kinds that another has read before, and writes later.
        cache = TempDir("helm-")
        environment["KUBECACHEDIR"] = str(cache.path)
        try:
            process = subprocess.Popen(  # noqa: S603 - no shell, and the arguments are the test's own
                [program, *args, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=environment,
            )
            try:
                yield process
            finally:
                _end(process)
        finally:
            cache.remove()


@dataclass(frozen=True, slots=True)
class Limits:
    """The options of the waits of one call, which share its deadline.

    Args:
        deadline: the deadline of the whole call.
        seconds: its limit.
        given: the options of waits that the caller has given.
    """

    deadline: Deadline
    seconds: float
    given: Mapping[str, Any]

    def options(self) -> dict[str, Any]:
        """Return the options of a wait that begins now."""
        return {**self.given, "timeout": max(round(self.deadline.remaining, 1), 0.1)}


def _make_timeout(shown: str, seconds: float) -> WaitTimeout:
    return WaitTimeout(f"{shown} did not end within {format_duration(round(seconds, 1))}")


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


def _add_notes(error: BaseException, lines: Iterable[str]) -> None:
    for line in lines:
        error.add_note(SECRET_VALUES.mask(line))


def _read_output(name: ReleaseName, done: HelmResult) -> _Record | None:
    """Return the record that `--output json` has printed; None if it has printed something else."""
    try:
        fields = json.loads(done.stdout)
        chart = fields["chart"]["metadata"]
        title = f"{chart['name']}-{chart['version']}"
        return _Record(name, fields, title, chart.get("appVersion") or "")
    except (ValueError, TypeError, KeyError):
        return None


def _format_command(
    name: ReleaseName, args: Iterable[str], shown: Mapping[str, str] | None = None
) -> str:
    """Return a command as a shell takes it, without credentials and assigned values.

    Args:
        shown: arguments that are shown otherwise.
    """
    words: list[str] = []
    option = ""
    for word in (*args, "--namespace", name.namespace):
        flag, equals, value = word.partition("=")
        text = (shown or {}).get(word, word)
        if _SET_OPTION.fullmatch(option):
            text = _ASSIGNED.sub("=***", word)
        elif _SET_OPTION.fullmatch(flag) and equals:
            text = f"{flag}={_ASSIGNED.sub('=***', value)}"
        elif _CREDENTIAL_OPTION.fullmatch(option):
            text = "***"
        elif _CREDENTIAL_OPTION.fullmatch(flag) and equals:
            text = f"{flag}=***"
        words.append(text)
        option = word
    return shlex.join(["helm", *words])


def _end(process: subprocess.Popen[str]) -> None:
    """End a process that still runs."""
    if process.poll() is None:
        process.terminate()
        try:
            process.communicate(timeout=_END_DELAY)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()

"""Releases that a test installs and changes: awaited, owned, and explained when they fail."""

from __future__ import annotations

import json
import math
import subprocess
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
)
from pytest_kwait.framework.operations.ready import is_awaited
from pytest_kwait.suite.helm.chart import Arguments
from pytest_kwait.suite.helm.program import (
    END_DELAY,
    HelmError,
    HelmProgram,
    HelmResult,
    format_command,
    make_timeout,
)
from pytest_kwait.suite.helm.records import (
    INSTALLED,
    Record,
    describe_release,
    parse_manifest,
    read_output_manifests,
    read_output_record,
)
from pytest_kwait.suite.manifests import read_manifests
from pytest_kwait.wait.context import Canceled, DeadlineExceeded, parse_stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.suite.helm.chart import ChartArguments
    from pytest_kwait.suite.helm.program import ReleaseName
    from pytest_kwait.suite.helm.records import HelmRelease
    from pytest_kwait.suite.manifests import ManifestWriter, Objects

_SLICE = 0.2
"""Seconds between two looks at what stops a command."""
_HOOK_DELAY = 2.0
"""Seconds after which a command that still runs may be awaiting a hook."""
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

_INSTALL_FLAGS = frozenset({"--install", "-i"})
"""Flags with which `helm upgrade` installs a release that is not there."""


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
        self._program = HelmProgram(session)
        self._writer = writer
        self._folders = folders
        self._wait = wait
        self._request = request
        self._installed: set[ReleaseName] = set()

    def install(
        self, command: str, name: ReleaseName, chart: ChartArguments, limits: Limits, *, wait: bool
    ) -> HelmRelease:
        """Run `helm install` or `helm upgrade`; return the release once it is ready."""
        with Arguments(self._folders(), chart) as arguments:
            args = [command, name.name, *arguments.args]
            shown = format_command(name, args, arguments.shown)
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
        return self._change(name, command, format_command(name, command), limits, wait=wait)

    def uninstall(
        self, name: ReleaseName, args: Sequence[str], limits: Limits, *, wait: bool
    ) -> None:
        """Run `helm uninstall`; return once the objects of the release are gone."""
        command = ["uninstall", name.name, *args]
        shown = format_command(name, command)
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
        with Arguments(self._folders(), chart) as arguments:
            args = ["template", name.name, *arguments.args]
            shown = format_command(name, args, arguments.shown)
            args += ["--kube-version", version, "--api-versions", ",".join(served)]
            done = self._program.call(name, args, shown, deadline)
        return parse_manifest({"manifest": read_output_manifests(done.stdout)})

    def _apply_definitions(self, name: ReleaseName, arguments: Arguments, limits: Limits) -> None:
        """Apply the definitions in `crds/` of a chart, which helm neither owns nor awaits."""
        args = ["show", "crds", *arguments.chart]
        done = self._program.call(name, args, format_command(name, args), limits.deadline)
        if definitions := read_output_manifests(done.stdout):
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
        record = read_output_record(name, done) or self._read(name)
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
        with self._program.started(name, [*args, "--timeout", limit], shown) as process:
            try:
                done = self._finish(process, name, shown, limits)
            except WaitFailed:
                # Helm may see the failure too, and record it.
                with suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=END_DELAY)
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
                raise make_timeout(shown, limits.seconds)
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

    def _own(self, record: Record) -> Objects:
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

    def _read(self, name: ReleaseName) -> Record | None:
        """Return what helm has recorded of a release; None if it knows none of the name."""
        fields = self._read_json(name, "status")
        if not fields:
            return None
        chart = self._read_json(name, "get", "metadata")
        title = f"{chart.get('chart')}-{chart.get('version')}"
        return Record(name, fields, title, chart.get("appVersion") or "")

    def _read_json(self, name: ReleaseName, *command: str) -> dict[str, Any]:
        args = [*command, name.name]
        shown = format_command(name, args)
        deadline = Deadline.after(_READ_LIMIT, self._session.clock)
        try:
            done = self._program.call(name, [*args, "--output", "json"], shown, deadline)
        except HelmError as error:
            if "release: not found" in error.result.stderr:
                return {}
            raise
        read: dict[str, Any] = json.loads(done.stdout)
        return read

    def _list_live(self, record: Record) -> Objects:
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


def _add_notes(error: BaseException, lines: Iterable[str]) -> None:
    for line in lines:
        error.add_note(SECRET_VALUES.mask(line))

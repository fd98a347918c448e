"""The bench a test works at: a client, a namespace, and the verbs to put things there and look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pytest_kwait.client.resource import EVENTS
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument, WaitTimeout
from pytest_kwait.framework.registry import VERBS, WAITS
from pytest_kwait.suite.apply import ManifestWriter
from pytest_kwait.suite.bound_wait import BoundWait
from pytest_kwait.suite.further import parse_namespace_request
from pytest_kwait.suite.informers import Informers
from pytest_kwait.suite.manifests import Source, read_manifests
from pytest_kwait.suite.pod_verbs import PodVerbs
from pytest_kwait.suite.workload_verbs import WorkloadVerbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.responses import ObjectList
    from pytest_kwait.clusters.provider import Cluster
    from pytest_kwait.framework.held_tests import HeldPredicate
    from pytest_kwait.framework.objects.combinators import ConditionInput
    from pytest_kwait.suite.bound_wait import WaitDefaults
    from pytest_kwait.suite.cleanup.belongings import CreatedObject
    from pytest_kwait.suite.cleanup.owned_objects import Owner
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.further import NamespaceMaker

__all__ = ["Kwait"]

# `list` is a verb of the bench, so its class body cannot name the type.
Objects = list[dict[str, Any]]
Problems = list[str]


class Kwait(PodVerbs, WorkloadVerbs):
    """A place in a cluster: `apply`, `get`, `delete`, `logs`, `wait_for`…, all in one namespace.

    Args:
        cluster: where it is.
        client: the client that it uses.
        namespace: the namespace that everything without one goes to.
        owner: whose it is, for the labels of what it makes elsewhere.
        terms: settings, timeouts and limits in force when a verb is called.
        folders: where relative paths of manifests are looked for, when a verb is called.
        owned: whether the namespace goes away after the bench, with everything in it.
        further: makes further namespaces that go with the bench; None where none can be made.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: ApiClient,
        namespace: str,
        *,
        owner: Owner,
        terms: Callable[[], WaitDefaults],
        folders: Callable[[], Iterable[Path]],
        owned: bool,
        further: NamespaceMaker | None = None,
    ) -> None:
        super().__init__(client, namespace, terms)
        self.cluster = cluster
        self.informers = Informers(client, namespace)
        self._folders = folders
        self._namespace_maker = further
        self._writer = ManifestWriter(
            self._session,
            namespace,
            owner=owner,
            owned=owned,
            deadline=self._deadline,
            established=lambda crd: self._bound("wait_for_crd_established")(crd),
            gone=self._gone,
        )
        self._owned = owned
        self.left: Problems = []
        """What was asked to go when it was closed, and was still there when its time was up."""

    def __repr__(self) -> str:
        return f"<Bench {self.namespace} on {self.cluster.provider}>"

    @property
    def settings(self) -> Settings:
        """The settings in force, each with its source."""
        return self._terms().settings

    @property
    def timeouts(self) -> Mapping[str, float]:
        """The timeout table in force: seconds by name."""
        return self._terms().timeouts

    @property
    def wait_for(self) -> BoundWait:
        """The general wait on this bench: `kwait.wait_for("job/pi", "condition=Complete")`."""
        return self._bound("wait_for")

    def _bound(self, name: str) -> BoundWait:
        return BoundWait(WAITS[name], self._terms())

    def apply(self, *sources: Source) -> Objects:
        """Apply manifests on the server's side, in order; return what the server made of them.

        What follows a CustomResourceDefinition waits until the server serves it (`crd`, 1 minute),
        and so does a kind that the server does not know yet, but has a definition of. Where one of
        the same name is being deleted, this waits until that is gone (`pod_client_deletion`, 3
        minutes), unless the manifest says finalizers: then it is meant for the one that goes.

        Args:
            *sources: paths (relative to the test's file, then to rootdir), YAML text, dicts, lists.

        Raises:
            InvalidManifest: a manifest cannot be used; names file, document and line.
            ApiError: refused by the server; a note names the manifest.
            WaitFailed: a kind has a definition, which can no longer be established.
            WaitTimeout: one of the same name is being deleted, and does not go away; or a
                definition is not served.
        """
        return self._writer.apply(read_manifests(sources, self._folders()))

    def create(self, *sources: Source) -> Objects:
        """Create the objects of manifests, in order; return them as the server made them.

        Where one of the same name is being deleted, or a kind is not served yet, this waits as
        `apply` does.

        Args:
            *sources: as for `apply`; `metadata.generateName` will do.

        Raises:
            InvalidManifest: a manifest cannot be used; names file, document and line.
            ApiError: refused by the server, or there already; a note names the manifest.
            WaitFailed: a kind has a definition, which can no longer be established.
            WaitTimeout: one of the same name is being deleted, and does not go away; or a
                definition is not served.
        """
        return self._writer.create(read_manifests(sources, self._folders()))

    def create_namespace(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        pod_security: str | None = None,
    ) -> Kwait:
        """Make one more namespace for this test; return a bench there, once pods can start in it.

        It is labelled, kept and removed as the test's own namespace is. Waits of fixtures look
        there with `namespace=bench.namespace`.

        Args:
            name: what to call it, a DNS label; its name has run, worker and test as well, so that
                every test may have one of the same name.
            labels: labels that it is to have.
            pod_security: the Pod Security Standard that it enforces, as `--kwait-pod-security`;
                None for what that says.

        Raises:
            InvalidArgument: an argument that cannot be meant.
            ClusterError: the cluster refuses it, or the run makes no namespaces.
            WaitTimeout: it did not get what every namespace gets; it is deleted.
        """
        request = parse_namespace_request(name, labels, pod_security)
        if self._namespace_maker is None:
            raise ClusterError(
                f"namespace {name!r} cannot be made: this bench is in {self.namespace}, which was "
                "there before, and the run makes none"
            )
        return self._namespace_maker(request)

    def create_and_wait(
        self,
        *sources: Source,
        condition: ConditionInput | HeldPredicate | None = None,
        **options: Any,
    ) -> Objects:
        """Create the objects of manifests; return them once each is what its kind is made for.

        Pods are then ready, Jobs complete, workloads rolled out: as `pytest_kwait.create_and_wait`
        has it.

        Args:
            *sources: as for `apply`; `metadata.generateName` will do.
            condition: what each is to satisfy, as for `wait_for`; None for what its kind is made
                for, which some kinds do not have.
            **options: the options of every wait; the limit (`pod`) is each object's.

        Raises:
            InvalidManifest: a manifest cannot be used; names file, document and line.
            InvalidArgument: an argument that cannot be meant, or a kind that needs a condition.
            ApiError: refused by the server, or there already; a note names the manifest.
            WaitFailed: it can no longer come.
            WaitTimeout: it did not come within the limit.
        """
        from pytest_kwait.framework.operations.create import check_awaitable

        documents = read_manifests(sources, self._folders())
        for document in documents:
            check_awaitable(document.object, condition)
        wait = BoundWait(VERBS["wait_for_created"], self._terms())
        return [
            wait(each, condition, namespace=each["metadata"].get("namespace"), **options)
            for each in self._writer.create(documents)
        ]

    def get(self, target: str, *, namespace: str | None = None) -> dict[str, Any]:
        """Return one object.

        Args:
            target: `kind/name`, in any of the names that kubectl knows a kind by.
            namespace: where, unless on this bench.

        Raises:
            ApiError: there is none (status 404), or the server does not show it.
            InvalidArgument: no `kind/name`, or an unknown kind; names near ones.
        """
        resource, name = self._target(target)
        return self._ask(
            lambda deadline: self._session.get(
                resource, name, self._place(resource, namespace), deadline=deadline
            )
        )

    def list(
        self,
        kind: str,
        *,
        selector: str | Mapping[str, str] | None = None,
        field_selector: str | Mapping[str, str] | None = None,
        namespace: str | None = None,
    ) -> Objects:
        """Return all objects of a kind.

        Args:
            kind: in any of the names that kubectl knows it by.
            selector: labels, as text or mapping.
            field_selector: fields, as text or mapping.
            namespace: where, unless on this bench.

        Raises:
            ApiError: the server does not show them.
            InvalidArgument: an unknown kind; names near ones.
        """
        resource = self._resolve(kind)
        listed = self._ask(
            lambda deadline: self._session.list(
                resource,
                self._place(resource, namespace),
                label_selector=selector,
                field_selector=field_selector,
                deadline=deadline,
            )
        )
        return _with_types(resource, listed)

    def delete(
        self,
        target: str,
        *,
        namespace: str | None = None,
        grace_period: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        """Ask for the deletion of an object; `wait_for(target, "delete")` waits until it is gone.

        Args:
            target: `kind/name`.
            namespace: where, unless on this bench.
            grace_period: seconds it may take to stop; None for its own time.
            propagation: `Background`, `Foreground` or `Orphan`: what happens to what it owns.

        Raises:
            ApiError: there is none (status 404), or the server refuses.
            InvalidArgument: no `kind/name`, or an unknown kind; names near ones.
        """
        resource, name = self._target(target)
        if propagation not in ("Background", "Foreground", "Orphan"):
            raise InvalidArgument(
                "propagation", propagation, "use Background, Foreground or Orphan"
            )
        self._ask(
            lambda deadline: self._session.delete(
                resource,
                name,
                self._place(resource, namespace),
                grace_period_seconds=grace_period,
                propagation_policy=propagation,
                deadline=deadline,
            )
        )

    def events(self, target: str | None = None, *, namespace: str | None = None) -> Objects:
        """Return the events of the namespace, or of one object, oldest first.

        Args:
            target: `kind/name`; None for all.
            namespace: where, unless on this bench.

        Raises:
            ApiError: the server does not show them.
            InvalidArgument: no `kind/name`, or an unknown kind; names near ones.
        """
        fields = None
        if target is not None:
            resource, name = self._target(target)
            fields = {"involvedObject.kind": resource.kind, "involvedObject.name": name}
        listed = self._ask(
            lambda deadline: self._session.list(
                EVENTS, namespace or self.namespace, field_selector=fields, deadline=deadline
            )
        )
        return sorted(_with_types(EVENTS, listed), key=_event_time)

    def close(self, *, keep: bool = False) -> Problems:
        """Stop forwards and informers, and delete what was made outside of a namespace of our own.

        Args:
            keep: whether to delete nothing, and to note on it for how long it stays.

        Returns:
            what could not be deleted or noted, each with its reason.
        """
        self._forwards.close()
        self.informers.stop()
        if keep:
            return self._writer.keep()
        # Where the next test works in the same namespace it is not to meet what this one has made.
        return self._writer.delete(None if self._owned else self._wait_for_deletions())

    def _gone(
        self, resource: Resource, namespace: str | None, name: str, uid: str, **options: Any
    ) -> None:
        wait = BoundWait(VERBS["wait_for_gone"], self._terms())
        wait(resource, name, uid, namespace=namespace, **options)

    def _wait_for_deletions(self) -> Callable[[CreatedObject], None] | None:
        """Return what waits until an object is gone, for all of them within one limit."""
        limit = self.settings.deletion_wait
        if not limit:
            return None
        deadline = Deadline.after(limit, self._session.clock)

        def see_off(going: CreatedObject) -> None:
            if deadline.expired:
                return
            limit = max(round(deadline.remaining, 1), 0.1)
            where = (going.resource, going.namespace, going.name, going.uid)
            try:
                self._gone(*where, timeout=limit)
            except WaitTimeout as error:
                self.left.append(error.args[0])
            except ApiError as error:
                self.left.append(f"{going}: whether it is gone cannot be seen: {error}")

        return see_off


def _with_types(resource: Resource, listed: ObjectList) -> Objects:
    """Return the objects of a list with what the API leaves out of those of built-in kinds."""
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [typed | item.object for item in listed.items]


def _event_time(event: Mapping[str, Any]) -> str:
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    created = (event.get("metadata") or {}).get("creationTimestamp")
    return str(next(filter(None, (*times, created)), ""))

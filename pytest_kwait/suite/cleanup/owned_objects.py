"""Objects owned by a run: their names, labels, annotations, seals, and deletion by UID.

Objects in a namespace of the run are deleted with it. All others (cluster-scoped, or in
other namespaces) are tracked by UID when they are created, carry the run's label, and are
deleted in reverse order.

Labels alone prove nothing, since people copy them. An owned object carries hashes of run
and test as labels, the same as readable annotations, and a seal over all of these and its
own namespace and name. An object whose labels, annotations and seal do not match is not
owned by a run.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.apimachinery.times import format_time, parse_time_or_none
from pytest_kwait.client.resource import NAMESPACES, REPLICATION_CONTROLLERS
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.client.write_options import Propagation
    from pytest_kwait.clock import Deadline

MANAGED_BY = "pytest-kwait"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_RUN = "pytest-kwait/run"
LABEL_OWNER = "pytest-kwait/owner"
LABEL_SHARD = "pytest-kwait/shard"
ANNOTATION_PREFIX = "pytest-kwait/"
"""Prefix of all annotations."""

ENVIRONMENTS_RUN = "environments.cluster"
"""The run of environments that stay after a run: no id of a run has a dot."""

KEPT_LIFETIME = 24 * 3600.0
"""Seconds after which a kept object has expired."""

_MAX_NAME_LENGTH = 63
_MAX_RUN_LENGTH = 24
_MAX_TITLE_LENGTH = 32
_NAME_PREFIX = "t"
_TEST_WORDS = re.compile(r"^(.*/)?[Tt]ests?_?|\.py$")
"""The common parts of names of tests, classes and modules."""

_HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""As in generated names: no word can be spelled.

Source: apimachinery/pkg/util/rand/rand.go alphanums.
"""
_HASH_LENGTH = 5


@dataclass(frozen=True, slots=True)
class CreatedObject:
    """An object that must be deleted.

    Args:
        namespace: None for cluster-scoped kinds.
        uid: its UID: another object of the same name is not deleted.
    """

    resource: Resource
    namespace: str | None
    name: str
    uid: str

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.kind.lower()}/{self.name}{where}"


class CreatedObjects:
    """Objects to delete at the end, last created first."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session
        self._objects: list[CreatedObject] = []

    def add(self, resource: Resource, obj: Mapping[str, Any]) -> None:
        """Add an object as the server returned it; what it does not store, a review, has no UID."""
        metadata = obj["metadata"]
        if "uid" not in metadata:
            return
        self.remember(
            CreatedObject(resource, metadata.get("namespace"), metadata["name"], metadata["uid"])
        )

    def remember(self, belonging: CreatedObject) -> None:
        """Add an object by its identity."""
        if belonging not in self._objects:
            self._objects.append(belonging)

    def __len__(self) -> int:
        return len(self._objects)

    def delete(
        self,
        deadline: Callable[[], Deadline],
        see_off: Callable[[CreatedObject], None] | None = None,
    ) -> list[str]:
        """Request the deletion of all objects; forgets those that are being deleted.

        Args:
            deadline: returns the deadline of one request.
            see_off: waits for one object, deleted with its dependents, before the next
                deletion; None to wait for none.

        Returns:
            what could not be deleted, each with its reason.
        """
        problems = []
        while self._objects:
            belonging = self._objects.pop()
            policy: Propagation = "Background"
            if see_off is not None and _may_have_dependents(belonging.resource):
                policy = "Foreground"
            problem, stays = _request_deletion(self._session, belonging, deadline(), policy)
            if problem is not None:
                problems.append(f"{belonging}: {problem}")
            elif stays and see_off is not None:
                see_off(belonging)
        return problems

    def keep(self, notes: Mapping[str, str], deadline: Callable[[], Deadline]) -> list[str]:
        """Annotate all objects as kept, and forget them.

        Args:
            notes: the annotations.
            deadline: returns the deadline of one request.

        Returns:
            what could not be noted, each with its reason.
        """
        problems = []
        while self._objects:
            belonging = self._objects.pop()
            # The UID protects another object of the same name.
            change = {"metadata": {"uid": belonging.uid, "annotations": notes}}
            try:
                request_with_retry(partial(self._note, belonging, change), deadline())
            except ApiError as error:
                if error.status not in (404, 409):
                    problems.append(f"{belonging}: {error}")
            except DeadlineExceeded as error:
                problems.append(f"{belonging}: {error}")
        return problems

    def _note(
        self, belonging: CreatedObject, change: Mapping[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        return self._session.patch(
            belonging.resource, belonging.name, change, belonging.namespace, deadline=deadline
        )


def delete_by_uid(session: ApiSession, belonging: CreatedObject, deadline: Deadline) -> str | None:
    """Request the deletion of one object; return the failure, if any."""
    return _request_deletion(session, belonging, deadline, "Background")[0]


def _request_deletion(
    session: ApiSession, belonging: CreatedObject, deadline: Deadline, policy: Propagation
) -> tuple[str | None, bool]:
    """Return the failure of a deletion, and whether the object still exists."""
    try:
        answer = request_with_retry(
            lambda deadline: session.delete(
                belonging.resource,
                belonging.name,
                belonging.namespace,
                uid=belonging.uid,
                propagation_policy=policy,
                deadline=deadline,
            ),
            deadline,
        )
    except ApiError as error:
        # Gone already, or another object of the same name.
        return None if error.status in (404, 409) else str(error), False
    except DeadlineExceeded as error:
        return str(error), False
    return None, bool((answer.get("metadata") or {}).get("deletionTimestamp"))


def _may_have_dependents(resource: Resource) -> bool:
    """Return whether objects of a kind may have dependents: workloads, custom resources."""
    if resource == REPLICATION_CONTROLLERS or resource.group in ("apps", "batch"):
        return True
    return "." in resource.group and not resource.group.endswith(".k8s.io")


def with_metadata(
    obj: Mapping[str, Any], labels: Mapping[str, str], notes: Mapping[str, str]
) -> dict[str, Any]:
    """Return a copy of an object with labels and annotations added to its own."""
    metadata = dict(obj.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **notes}
    return {**obj, "metadata": metadata}


class RunRegistration(Protocol):
    """Registration of a run in its cluster: its Lease, the kinds it creates, its quota."""

    def place(self) -> str:
        """Return namespace/name of the run's Lease, created if needed; empty if it cannot exist."""

    def record(self, kind: str) -> None:
        """Add a kind (`plural.version.group`) to the Lease, before its first object is created."""

    def acquire_namespace_quota(self, name: str, seconds: float) -> str:
        """Return "" once the namespace may be created, or the refusal after `seconds`."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a namespace; names of different owners differ.

    Args:
        run: the id of the run.
        test: the id of the test, class, module or session, or the name given to the factory.
        title: the readable part of the name.
        worker: the xdist worker; empty without xdist.
        shard: the run's shard; empty without shards.
        attempt: 1 for the first namespace of this test, 2 when it runs again.
        nonce: distinguishes runs with the same id; random for each process.
        registration: registers the run in the cluster; None where the cluster ends with the run.
    """

    run: str
    test: str
    title: str
    worker: str = ""
    shard: str = ""
    attempt: int = 1
    nonce: str = ""
    registration: RunRegistration | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """A short DNS label: `t`, the title without `test`, and a hash of all.

        The server refuses a name that is taken; then `nonce` is changed.
        """
        title = _slug(_TEST_WORDS.sub("", self.title))[:_MAX_TITLE_LENGTH].strip("-")
        return "-".join(filter(None, (_NAME_PREFIX, title, _short_hash(self.digest))))

    @property
    def digest(self) -> str:
        """A hash of all that distinguishes this owner."""
        return _digest(self.run, self.shard, self.worker, self.test, str(self.attempt), self.nonce)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of owned objects: hashes, since label values are restricted."""
        labels = {LABEL_RUN: run_label_value(self.run), LABEL_OWNER: _digest(self.test)[:16]}
        if self.shard:
            labels[LABEL_SHARD] = shard_label_value(self.shard)
        return labels

    def annotations(self, now: float, heartbeat: str = "") -> dict[str, str]:
        """Return the readable facts, and the time at which an owned object expires.

        Args:
            now: seconds since the epoch.
            heartbeat: namespace/name of the run's Lease; empty for none.
        """
        readable = {
            "run": self.run,
            "shard": self.shard,
            "worker": self.worker,
            "test": self.test,
            "attempt": str(self.attempt),
            "nonce": self.nonce,
            "heartbeat": heartbeat,
            "expires": format_time(now + KEPT_LIFETIME),
        }
        return {ANNOTATION_PREFIX + name: value for name, value in readable.items() if value}

    def seal(self, resource: Resource, namespace: str | None, name: str) -> str:
        """A hash that ties an object to this owner. A copy of the object needs another.

        Args:
            namespace: None for cluster-scoped kinds.
            name: its name, or the prefix of `generateName` with a `*`.
        """
        return _digest(self.digest, resource.qualified, namespace or "", name)[:32]

    def describe(self, other: Owner) -> str:
        """Return the test, and the run or worker if that is not another owner's too."""
        if self.run == ENVIRONMENTS_RUN:
            return f"{self.test}, which stays"
        if self.run != other.run:
            return f"{self.test} of run {self.run}"
        place = (self.shard, self.worker)
        if place == (other.shard, other.worker):
            return self.test
        where = [f"shard {self.shard}"] if self.shard else []
        where += [f"worker {self.worker}"] if self.worker else []
        return f"{self.test} on {', '.join(where) or 'the controller'}"

    def outlasts(self, other: Owner) -> bool:
        """Return whether objects of this owner stay as long as another owner of the run lasts.

        Objects of a session are left to the end of the run; those of modules and classes last as
        long as the tests in them that run in the same process. A test that runs again finds what
        its killed worker left.
        """
        node, _, environment = self.test.partition(" environment ")
        if node == "session" or node.startswith(("environment ", "factory ")):
            return True
        if self.test == other.test:
            return True
        place = (self.shard, self.worker, self.nonce.partition(".")[0])
        if place != (other.shard, other.worker, other.nonce.partition(".")[0]):
            return False
        within = other.test.partition(" environment ")[0]
        return within.startswith((f"{node}::", f"{node}/")) or (
            bool(environment) and within == node
        )

    def derive(self, name: str, number: int) -> Owner:
        """Return the owner of a further namespace.

        Args:
            name: the name given by the test.
            number: distinguishes namespaces of the same name.
        """
        return replace(
            self, title=f"{name} {self.title}", nonce=f"{self.nonce}.{name}.{number}".lstrip(".")
        )

    def manifest(
        self, now: float, heartbeat: str = "", labels: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the namespace to create.

        Args:
            now: seconds since the epoch.
            heartbeat: namespace/name of the run's Lease; empty for none.
            labels: further labels.
        """
        seal = {ANNOTATION_PREFIX + "seal": self.seal(NAMESPACES, None, self.name)}
        return {
            "apiVersion": NAMESPACES.api_version,
            "kind": NAMESPACES.kind,
            "metadata": {
                "name": self.name,
                "labels": {**(labels or {}), LABEL_MANAGED_BY: MANAGED_BY, **self.labels},
                "annotations": self.annotations(now, heartbeat) | seal,
            },
        }


def run_label_value(run: str) -> str:
    """Return the value of the label of all objects of a run."""
    return _digest(run)[:16]


def shard_label_value(shard: str) -> str:
    """Return the value of the label of all objects of a shard."""
    return _slug(shard)[:_MAX_NAME_LENGTH].strip("-")


def run_lease_name(run: str, nonce: str) -> str:
    """Return the name of the Lease of a run."""
    return "-".join(
        filter(None, ("kwait", run[:_MAX_RUN_LENGTH].strip("-"), _digest(run, nonce)[:8]))
    )


def kept_annotations(now: float) -> dict[str, str]:
    """Return the annotations of a kept object.

    Args:
        now: seconds since the epoch.
    """
    return {
        ANNOTATION_PREFIX + "kept": "true",
        ANNOTATION_PREFIX + "expires": format_time(now + KEPT_LIFETIME),
    }


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _short_hash(digest: str) -> str:
    number, letters = int(digest, 16), ""
    for _ in range(_HASH_LENGTH):
        number, rest = divmod(number, len(_HASH_LETTERS))
        letters += _HASH_LETTERS[rest]
    return letters


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Provenance:
    """The owner and state of an object, as its annotations record them.

    Args:
        owner: without the title, which is not recorded.
        heartbeat: namespace/name of the run's Lease; empty for none.
        kept: whether it was kept on purpose.
        expires: seconds since the epoch after which it may be deleted in any case.
    """

    owner: Owner
    heartbeat: str
    kept: bool
    expires: float


def with_seal(
    owner: Owner,
    resource: Resource,
    obj: Mapping[str, Any],
    namespace: str | None,
    now: float,
    heartbeat: str = "",
) -> dict[str, Any]:
    """Return a copy of an object with the labels, annotations and seal of an owner.

    Args:
        obj: the object, with a name or `generateName`.
        namespace: None for cluster-scoped kinds.
        now: seconds since the epoch.
        heartbeat: namespace/name of the run's Lease; empty for none.
    """
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or f"{metadata.get('generateName')}*"
    notes = owner.annotations(now, heartbeat)
    notes[ANNOTATION_PREFIX + "seal"] = owner.seal(resource, namespace, name)
    return with_metadata(obj, owner.labels, notes)


def read_provenance(resource: Resource, obj: Mapping[str, Any]) -> Provenance | None:
    """Return the provenance of an object; None unless labels, annotations and seal match."""
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels") or {}
    notes = metadata.get("annotations") or {}
    attempt = str(notes.get(ANNOTATION_PREFIX + "attempt", ""))
    expires = parse_time_or_none(notes.get(ANNOTATION_PREFIX + "expires"))
    if not attempt.isdecimal() or expires is None:
        return None
    owner = Owner(
        str(notes.get(ANNOTATION_PREFIX + "run", "")),
        str(notes.get(ANNOTATION_PREFIX + "test", "")),
        "",
        worker=str(notes.get(ANNOTATION_PREFIX + "worker", "")),
        shard=str(notes.get(ANNOTATION_PREFIX + "shard", "")),
        attempt=int(attempt),
        nonce=str(notes.get(ANNOTATION_PREFIX + "nonce", "")),
    )
    if any(labels.get(name) != owner.labels[name] for name in (LABEL_RUN, LABEL_OWNER)):
        return None
    name, prefix = str(metadata.get("name", "")), metadata.get("generateName")
    names = [name, *([f"{prefix}*"] if prefix and name.startswith(prefix) else [])]
    seals = {owner.seal(resource, metadata.get("namespace"), name) for name in names}
    if notes.get(ANNOTATION_PREFIX + "seal") not in seals:
        return None
    return Provenance(
        owner,
        str(notes.get(ANNOTATION_PREFIX + "heartbeat", "")),
        notes.get(ANNOTATION_PREFIX + "kept") == "true",
        expires,
    )

"""Who things in a cluster are for: their names, labels, annotations and seals."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.clock import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.suite.cleanup.run_lease import RunRegistration

__all__ = [
    "ANNOTATION_PREFIX",
    "KEPT_LIFETIME",
    "LABEL_MANAGED_BY",
    "LABEL_OWNER",
    "LABEL_RUN",
    "LABEL_SHARD",
    "MANAGED_BY",
    "Owner",
    "kept_annotations",
    "run_label_value",
    "run_lease_name",
    "shard_label_value",
]

MANAGED_BY = "pytest-kwait"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_RUN = "pytest-kwait/run"
LABEL_OWNER = "pytest-kwait/owner"
LABEL_SHARD = "pytest-kwait/shard"
ANNOTATION_PREFIX = "pytest-kwait/"
"""What the names of all annotations begin with."""

KEPT_LIFETIME = 24 * 3600.0
"""Seconds after which a namespace that nobody deleted may be taken for left behind."""

_MAX_NAME_LENGTH = 63
_MAX_RUN_LENGTH = 24


@dataclass(frozen=True, slots=True)
class Owner:
    """Who a namespace is for; no two owners of any run have the same name.

    Args:
        run: the id of the run.
        test: the id of the test, class, module or session, or the name given to the factory.
        title: what of it a reader should see in the name.
        worker: the xdist worker; empty without xdist.
        shard: the part of the suite that this machine runs; empty without shards.
        attempt: 1 for the first namespace of this test, 2 when it runs again.
        nonce: keeps apart runs that were given the same id; random for each process.
        pulse: says in the cluster that the run lives; None where the cluster ends with the run.
    """

    run: str
    test: str
    title: str
    worker: str = ""
    shard: str = ""
    attempt: int = 1
    nonce: str = ""
    pulse: RunRegistration | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """A DNS label: run, shard, worker, the title as far as it fits, attempt, a hash of all."""
        head = "-".join(
            filter(
                None,
                ("kwait", self.run[:_MAX_RUN_LENGTH].strip("-"), _slug(self.shard), self.worker),
            )
        )
        attempt = str(self.attempt) if self.attempt > 1 else ""
        tail = "-".join(filter(None, (attempt, self.digest[:8])))
        title = _slug(self.title)[: _MAX_NAME_LENGTH - len(head) - len(tail) - 2].strip("-")
        return "-".join(filter(None, (head, title, tail)))

    @property
    def digest(self) -> str:
        """A hash of everything that makes this owner different from others."""
        return _digest(self.run, self.shard, self.worker, self.test, str(self.attempt), self.nonce)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of what belongs to this owner: hashes, as names hold what labels must not."""
        labels = {LABEL_RUN: run_label_value(self.run), LABEL_OWNER: _digest(self.test)[:16]}
        if self.shard:
            labels[LABEL_SHARD] = shard_label_value(self.shard)
        return labels

    def annotations(self, now: float, heartbeat: str = "") -> dict[str, str]:
        """Return the same to read, and when what belongs to this owner has expired.

        Args:
            now: seconds since the epoch.
            heartbeat: namespace/name of the Lease that says whether the run lives; empty for none.
        """
        readable = {
            "run": self.run,
            "shard": self.shard,
            "worker": self.worker,
            "test": self.test,
            "attempt": str(self.attempt),
            "nonce": self.nonce,
            "heartbeat": heartbeat,
            "expires": rfc3339(now + KEPT_LIFETIME),
        }
        return {ANNOTATION_PREFIX + name: value for name, value in readable.items() if value}

    def seal(self, resource: Resource, namespace: str | None, name: str) -> str:
        """A hash that ties an object to this owner: a copy of it elsewhere does not fit.

        Args:
            resource: its kind.
            namespace: where it is; None for cluster-scoped kinds.
            name: its name; what a name is generated from with a `*`.
        """
        return _digest(self.digest, resource.qualified, namespace or "", name)[:32]

    def derive(self, name: str, number: int) -> Owner:
        """Return the same owner for one more namespace.

        Args:
            name: what it is called; a reader should see it in its name.
            number: keeps apart those that are called the same.
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
            heartbeat: namespace/name of the Lease that says whether the run lives; empty for none.
            labels: labels that it is to have as well.
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
    """Return the value of the label that all of a run's objects carry."""
    return _digest(run)[:16]


def shard_label_value(shard: str) -> str:
    """Return the value of the label that all objects of one part of the suite carry."""
    return _slug(shard)[:_MAX_NAME_LENGTH].strip("-")


def run_lease_name(run: str, nonce: str) -> str:
    """Return the name of the Lease that says whether a run lives."""
    return "-".join(
        filter(None, ("kwait", run[:_MAX_RUN_LENGTH].strip("-"), _digest(run, nonce)[:8]))
    )


def kept_annotations(now: float) -> dict[str, str]:
    """Return the annotations of what is left on purpose, and for how long.

    Args:
        now: seconds since the epoch.
    """
    return {
        ANNOTATION_PREFIX + "kept": "true",
        ANNOTATION_PREFIX + "expires": rfc3339(now + KEPT_LIFETIME),
    }


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()

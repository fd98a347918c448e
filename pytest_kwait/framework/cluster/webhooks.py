"""Wait for an admission webhook that answers, proven by a dry run.

That a configuration exists proves nothing about the server behind it; that its endpoints are
ready does not prove that the API server calls it yet. A probe object is created as a dry run
and never stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import (
    CONFIG_MAPS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.options import WaitOptions, check_text, parse_target
from pytest_kwait.engine.retry import request_once
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.framework.registry import ConditionOf

__all__ = [
    "PROBE_KINDS",
    "AnsweringWebhook",
    "build_probe",
    "wait_for_webhook_ready",
]

_PROBE_CONTENTS: Mapping[Resource, dict[str, Any]] = {
    CONFIG_MAPS: {},
    SECRETS: {},
    SERVICE_ACCOUNTS: {},
    SERVICES: {"spec": {"ports": [{"port": 80}]}},
    PODS: {"spec": {"containers": [{"name": "probe", "image": "probe"}]}},
}

PROBE_KINDS = ", ".join(resource.plural for resource in _PROBE_CONTENTS)
"""What an object can be made up of, as it stands in a sentence."""


def build_probe(webhooks: Iterable[Mapping[str, Any]]) -> tuple[Resource, dict[str, Any]] | None:
    """Return an object whose creation the first of some webhooks is asked about, and its kind.

    It has no name of its own, and the labels that the webhook's objectSelector wants to be equal
    to something. None where the rules speak of no kind that can be made up, or of no creation.

    Args:
        webhooks: as a configuration lists them.
    """
    for webhook in webhooks:
        labels = (webhook.get("objectSelector") or {}).get("matchLabels") or {}
        for rule in webhook.get("rules") or ():
            for resource, content in _PROBE_CONTENTS.items():
                if _is_about_creation(rule, resource):
                    metadata = {"generateName": "kwait-probe-", "labels": dict(labels)}
                    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
                    return resource, {**kind, "metadata": metadata, **content}
    return None


def _is_about_creation(rule: Mapping[str, Any], resource: Resource) -> bool:
    """Return whether a rule is about the creation of objects of a kind in a namespace."""
    wanted = (
        ("operations", "CREATE"),
        ("apiGroups", resource.group),
        ("apiVersions", resource.version),
        ("resources", resource.plural),
    )
    return rule.get("scope") in (None, "*", "Namespaced") and all(
        {value, "*", "*/*"} & set(rule.get(key) or ()) for key, value in wanted
    )


def _configurations(singular: str, kind: str) -> Resource:
    group = "admissionregistration.k8s.io"
    return Resource(group, "v1", f"{singular}s", kind, namespaced=False, singular=singular)


_KINDS = {
    resource.singular: resource
    for resource in (
        _configurations("validatingwebhookconfiguration", "ValidatingWebhookConfiguration"),
        _configurations("mutatingwebhookconfiguration", "MutatingWebhookConfiguration"),
    )
}

SETTLING_TIME = 1.0
"""Seconds that objects must be let through for: a server hears of a configuration a moment late,
and calls nobody before.
"""

_DENIED = re.compile(r'admission webhook "([^"]*)" denied the request')
_UNREACHED = "failed calling webhook"


class AnsweringWebhook:
    """The webhooks of a configuration answer what the API server asks them.

    Args:
        namespace: where the probe is made.
        resource: the configuration's kind.
        name: its name.
        probe: the object; None to make one up.
        denial: a part of the message by which the webhook refuses the probe; None where it does
            not.
        mutation: what the webhook adds to the probe; None where it adds nothing.
    """

    runs_user_code = False
    goal = "answer"
    session: Session | None = None
    """Who asks; set by the wait."""

    def __init__(
        self,
        namespace: str,
        resource: Resource,
        name: str,
        *,
        probe: Mapping[str, Any] | None,
        denial: str | None,
        mutation: Mapping[str, Any] | None,
    ) -> None:
        self.namespace = namespace
        self._probe = probe
        self._denial = denial
        self._mutation = mutation
        self._configuration = SingleObject(resource, name)
        self._sources = (Source(resource, None, self._configuration, name),)
        self._asked: str | None = None
        self._accepted_since: float | None = None
        self._verdict: Verdict = Pending("not asked yet")

    @property
    def subject(self) -> str:
        """The configuration."""
        return f"{self._configuration.noun} {self._configuration.name}"

    def sources(self) -> Sequence[Source]:
        """Return the configuration."""
        return self._sources

    def _version(self) -> str:
        metadata = (self._configuration.current or {}).get("metadata") or {}
        return str(metadata.get("resourceVersion"))

    def _webhooks(self) -> list[dict[str, Any]]:
        return list((self._configuration.current or {}).get("webhooks") or ())

    def verdict(self) -> Verdict:
        """Judge by the configuration, then by what became of the last probe."""
        absent = self._configuration.missing_verdict() or self._configuration.ending()
        if absent is not None:
            return absent
        if self._probe is None and build_probe(self._webhooks()) is None:
            return Failed(
                f"no probe can be made up for its rules (only creations of {PROBE_KINDS}): "
                "give one",
                Patience.SHORT,
            )
        return self._verdict

    def questions(self) -> Sequence[Any]:
        """Return the probe and what the configuration says; nothing while it is not there."""
        if self._configuration.current is None:
            return ()
        webhooks = self._webhooks()
        probe = build_probe(webhooks) if self._probe is None else (None, self._probe)
        return () if probe is None else ((*probe, webhooks),)

    def is_urgent(self) -> bool:
        """Whether the configuration has changed since the last look."""
        return self._asked != self._version()

    def ask(self, questions: Sequence[Any], deadline: Deadline) -> Verdict:
        """Have the probe created as a dry run, and judge the answer."""
        session = self.session
        if session is None:
            raise InvalidArgument("session", None, "give one to ask with")
        version = self._version()
        if self._asked != version:
            self._accepted_since = None
        self._asked = version
        kind, probe, webhooks = questions[0]
        resource = kind or request_once(
            lambda limit: session.resolve(
                str(probe["kind"]), str(probe["apiVersion"]), deadline=limit
            ),
            deadline,
        )
        where = self.namespace if resource.namespaced else None
        answer: dict[str, Any] | None = None
        refusal = ""
        try:
            answer = request_once(
                lambda limit: session.create(resource, probe, where, dry_run=True, deadline=limit),
                deadline,
            )
        except ApiError as error:
            refusal = error.message
            if _UNREACHED in refusal:
                self._accepted_since = None
                return Pending(refusal)
            # A name that is taken is found out after all webhooks have been asked.
            if not _DENIED.search(refusal) and error.status != 409:
                raise
        return self._judge(answer, refusal, webhooks, session.clock.monotonic())

    def _judge(
        self,
        answer: dict[str, Any] | None,
        refusal: str,
        webhooks: Sequence[Mapping[str, Any]],
        now: float,
    ) -> Verdict:
        denied = _DENIED.search(refusal)
        if denied is not None:
            self._accepted_since = None
            if self._denial is not None and self._denial in refusal:
                return Met()
            if self._denial is None and denied[1] in {each.get("name") for each in webhooks}:
                return self._unwanted(refusal)
            return Pending(f"the probe was refused otherwise: {refusal}")
        if self._denial is not None:
            return Pending("the probe was let through, not refused")
        if self._mutation is not None:
            missing = None if answer is None else _first_missing_path(answer, self._mutation)
            if answer is not None and missing is None:
                return Met()
            return Pending(f"the probe was let through without {missing or 'an answer'}")
        return self._let_through(webhooks, now)

    def _unwanted(self, refusal: str) -> Verdict:
        """Return the verdict on a refusal that nobody asked for: it is an answer all the same."""
        return Met() if self._mutation is None else Pending(f"the probe was refused: {refusal}")

    def _let_through(self, webhooks: Sequence[Mapping[str, Any]], now: float) -> Verdict:
        """Return what it proves that the probe was let through."""
        ignoring = [str(each.get("name")) for each in webhooks if _is_ignoring_failures(each)]
        if ignoring:
            return Failed(
                f"the failurePolicy of {ignoring[0]} is Ignore: that a probe is let through proves "
                "nothing, name the denial or the mutation that does",
                Patience.SHORT,
            )
        if self._accepted_since is None:
            self._accepted_since = now
        if now - self._accepted_since >= SETTLING_TIME:
            return Met()
        return Pending(f"the probe was let through, which must hold for {SETTLING_TIME:g}s")

    def record_answers(self, answers: Verdict) -> None:
        """Note what became of the probe."""
        self._verdict = answers

    def seen(self) -> str:
        """Name the webhooks."""
        return ", ".join(
            f"{each.get('name')} (failurePolicy {each.get('failurePolicy') or 'Fail'})"
            for each in self._webhooks()
        )

    def result(self) -> dict[str, Any]:
        """Return the configuration."""
        return self._configuration.object()

    def scope(self) -> EvidenceScope:
        """Return the configuration."""
        return EvidenceScope(None, objects=(self._configuration.reference(),))


def _is_ignoring_failures(webhook: Mapping[str, Any]) -> bool:
    return webhook.get("failurePolicy") == "Ignore"


def _first_missing_path(found: object, wanted: object, where: str = "") -> str | None:
    """Return the first path of `wanted` that is not in `found`; None where all of it is."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key, value in wanted.items():
            path = f"{where}.{key}"
            if key not in found:
                return path
            missing = _first_missing_path(found[key], value, path)
            if missing is not None:
                return missing
        return None
    return None if found == wanted else f"{where} of {wanted!r}"


@wait(
    limit="webhook",
    summary="admission webhooks that answer, shown by a dry run",
    poll="serving_poll",
)
def wait_for_webhook_ready(
    client: ApiClient,
    namespace: str,
    webhook: str,
    probe: Mapping[str, Any] | None = None,
    *,
    denial: str | None = None,
    mutation: Mapping[str, Any] | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a webhook configuration once its webhooks answer the API server.

    A probe is created as a dry run every `poll`, 100 ms if not given, and never stored. What proves
    an answer:

    - a refusal with `denial` in its message, where that is given;
    - what `mutation` says in the object that comes back, where that is given;
    - otherwise a refusal in the name of one of its webhooks, or that the probe has been let through
      for a second: with failurePolicy Fail it would be refused if nobody answered. With Ignore it
      proves nothing, and the wait ends saying so.

    A webhook that the probe does not match is not asked: an object made up has the labels that the
    objectSelector's `matchLabels` want, but `matchExpressions`, `matchConditions` and the labels of
    the namespace are the caller's to care for.

    Args:
        client: the official client; its user must be allowed to create the probe.
        namespace: where the probe would be created.
        webhook: `validatingwebhookconfiguration/<name>` or `mutatingwebhookconfiguration/<name>`.
        probe: an object that the webhook is asked about when it is created; if not given, one is
            made up from the first rule about the creation of config maps, secrets, service
            accounts, services or pods.
        denial: a part of the message by which the webhook refuses the probe.
        mutation: a part of the object as the webhook changes it, for example `{"metadata":
            {"annotations": {"seen": "yes"}}}`; lists are compared as a whole.

    Raises:
        ApiError: the server refuses the probe by itself.
        WaitFailed: the configuration was deleted, no probe can be made up, or nothing can be
            proven.

    Source: kubernetes/test/e2e/apimachinery/webhook.go waitWebhookConfigurationReady, which takes a
    denial for the proof.
    """
    check_namespace(namespace)
    target = parse_target("webhook", webhook)
    kind = target.kind.lower().partition(".")[0].removesuffix("s")
    if kind not in _KINDS or not target.name:
        raise InvalidArgument(
            "webhook", webhook, f"use {' or '.join(f'{k}/<name>' for k in _KINDS)}"
        )
    given: object = probe
    if given is not None and not (
        isinstance(given, Mapping)
        and {"apiVersion", "kind", "metadata"} <= set(given)
        and isinstance(given["metadata"], Mapping)
    ):
        raise InvalidArgument("probe", given, "use an object with apiVersion, kind and metadata")
    added: object = mutation
    if added is not None and not (isinstance(added, Mapping) and added):
        raise InvalidArgument("mutation", added, "use the part of the object that the webhook adds")
    if denial is not None and mutation is not None:
        raise InvalidArgument("denial", denial, "leave it out where a mutation is awaited")
    return AnsweringWebhook(
        namespace,
        _KINDS[kind],
        check_name("webhook", target.name),
        probe=probe,
        denial=None if denial is None else check_text("denial", denial),
        mutation=mutation,
    )

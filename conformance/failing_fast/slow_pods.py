"""Pods that start slowly and succeed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.failing_fast.waits import (
    LIMIT,
    job_pods_running,
    labelled_pods_ready,
    pod_ready,
    pod_running,
    pod_success,
)
from e2e.kubelet_nodes import first_kubelet_node
from e2e.objects import config_map, container, job, pod, secret
from pytest_kwait import (
    wait_for,
    wait_for_container_running,
    wait_for_job_complete,
    wait_for_job_pods_succeeded,
)
from pytest_kwait.client.resource import NODES
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait

    Heal = Callable[[Kwait], None]
    from conformance.failing_fast.waits import Wait


@dataclass(frozen=True)
class Start:
    """Something that starts slowly.

    Args:
        title: what is slow about it.
        objects: what is created.
        wait: waits for it, given client and namespace.
        heal: brings what is missing; None where it heals by itself.
        after: seconds until then.
        suspect: how messages name it, while it looks as if it fails.
    """

    title: str
    objects: list[dict[str, Any]]
    wait: Wait
    heal: Heal | None = None
    after: float = 8.0
    suspect: str = ""


def _from(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"name": "LATE", "valueFrom": {kind: {"name": name, "key": "key"}}}]


def _volume(name: str, **source: Any) -> dict[str, Any]:
    mount = {"name": "late", "mountPath": "/late"}
    return pod(name, container(volumeMounts=[mount]), volumes=[{"name": "late", **source}])


def _creating(*objects: dict[str, Any]) -> Heal:
    def heal(kwait: Kwait) -> None:
        kwait.create(*objects)

    return heal


def _patching(kind: str, name: str, op: str, path: str, value: object = None) -> Heal:
    def heal(kwait: Kwait) -> None:
        session, deadline = ApiSession.of(kwait.client), Deadline.after(20.0)
        session.patch(
            session.resolve(kind, deadline=deadline),
            name,
            [{"op": op, "path": path, "value": value}],
            kwait.namespace,
            content_type="application/json-patch+json",
            deadline=deadline,
        )

    return heal


def label_node(kwait: Kwait, label: str, value: str | None) -> None:
    """Give the first node a label; None takes it away."""
    session, patch = ApiSession.of(kwait.client), {"metadata": {"labels": {label: value}}}
    session.patch(NODES, first_kubelet_node(kwait), patch, deadline=Deadline.after(20.0))


def _labelling(label: str, value: str) -> Heal:
    return lambda kwait: label_node(kwait, label, value)


def _crashing(name: str, policy: str, *, in_init: bool = False) -> dict[str, Any]:
    """Return a pod of which a container ends badly twice: the third crash would end a wait."""
    mount = {"name": "starts", "mountPath": "/starts"}
    script = "cd /starts; test -e two && exit 0; test -e one && touch two; touch one; exit 1"
    volumes = [{"name": "starts", "emptyDir": {}}]
    if in_init:
        first = container("first", script, volumeMounts=[mount])
        return pod(name, restartPolicy=policy, volumes=volumes, initContainers=[first])
    main = container(script=script.replace("exit 0", "sleep 300"), volumeMounts=[mount])
    return pod(name, main, restartPolicy=policy, volumes=volumes)


_MAP, _SECRET = "configMapKeyRef", "secretKeyRef"
_PROBE = {
    "exec": {"command": ["test", "-e", "/tmp/up"]},
    "periodSeconds": 1,
    "failureThreshold": 60,
}
_UP_LATE = "sleep 6; touch /tmp/up; sleep 300"
_UNREADY = container(script=_UP_LATE, readinessProbe=_PROBE)
_OPEN = ("add", "/data/key", "yes")


def starts(namespace: str) -> list[Start]:
    """Return the starts, for one namespace."""
    label = label_of(namespace)
    return [
        Start(
            "an image that is named right late",
            [pod("misnamed", container(image="registry.invalid/app:1"))],
            pod_ready("misnamed"),
            _patching("pod", "misnamed", "replace", "/spec/containers/0/image", "busybox:1.36"),
            suspect="/misnamed to",
        ),
        Start(
            "a late config map",
            [pod("config", container(env=_from(_MAP, "config")))],
            pod_ready("config"),
            _creating(config_map("config", key="1")),
            suspect="/config to",
        ),
        Start(
            "a late key of a config map",
            [config_map("keyless", other="1"), pod("key", container(env=_from(_MAP, "keyless")))],
            pod_running("key"),
            _patching("configmap", "keyless", *_OPEN),
            suspect="/key to",
        ),
        Start(
            "a late secret",
            [pod("secret", container(env=_from(_SECRET, "secret")))],
            pod_ready("secret"),
            _creating(secret("secret", key="late")),
            suspect="/secret to",
        ),
        Start(
            "a late secret in an init container",
            [
                pod(
                    "init-secret",
                    initContainers=[container("first", "true", env=_from(_SECRET, "init-secret"))],
                )
            ],
            pod_ready("init-secret"),
            _creating(secret("init-secret", key="late")),
            suspect="/init-secret to",
        ),
        Start(
            "a late volume of a config map",
            [_volume("config-volume", configMap={"name": "config-volume"})],
            pod_ready("config-volume"),
            _creating(config_map("config-volume", key="1")),
        ),
        Start(
            "a late volume of a secret",
            [_volume("secret-volume", secret={"secretName": "secret-volume"})],
            pod_running("secret-volume"),
            _creating(secret("secret-volume", key="late")),
        ),
        Start(
            "a container that crashes twice, then runs",
            [_crashing("crash", "Always")],
            lambda client, namespace: wait_for(
                client,
                namespace,
                "pod/crash",
                lambda pod: _is_ready(pod) and _restarts(pod) >= 2,
                timeout=LIMIT,
            ),
        ),
        Start(
            "an init container that fails twice, then is done",
            [_crashing("init", "OnFailure", in_init=True)],
            pod_ready("init"),
        ),
        Start(
            "a slow init container",
            [pod("slow-init", initContainers=[container("first", "sleep 8")])],
            pod_running("slow-init"),
        ),
        Start(
            "a slow sidecar",
            [
                pod(
                    "sidecar",
                    initContainers=[
                        container("helper", _UP_LATE, restartPolicy="Always", startupProbe=_PROBE)
                    ],
                )
            ],
            lambda client, namespace: wait_for_container_running(
                client, namespace, "sidecar", "main", timeout=LIMIT
            ),
        ),
        Start(
            "no node, until one has the label",
            [pod("placed", nodeSelector={label: "yes"})],
            pod_ready("placed"),
            _labelling(label, "yes"),
            suspect="/placed to",
        ),
        Start(
            "a scheduling gate that is lifted late",
            [pod("gated", schedulingGates=[{"name": "example.com/quota"}])],
            pod_running("gated"),
            _patching("pod", "gated", "remove", "/spec/schedulingGates"),
        ),
        Start("readiness that comes late", [pod("unready", _UNREADY)], pod_ready("unready")),
        Start(
            "a slow start before readiness",
            [pod("booting", container(script=_UP_LATE, startupProbe=_PROBE))],
            pod_ready("booting"),
        ),
        Start(
            "three pods whose config map is late",
            [
                pod(f"three-{n}", container(env=_from(_MAP, "three")), labels={"app": "three"})
                for n in range(3)
            ],
            labelled_pods_ready("three", 3),
            _creating(config_map("three", key="1")),
            suspect="app=three",
        ),
        Start("a pod that is created late", [], pod_ready("late"), _creating(pod("late"))),
        Start(
            "a pod that works long", [pod("work", container(script="sleep 9"))], pod_success("work")
        ),
        Start(
            "a job that is created late",
            [],
            job_pods_running("late", 1),
            _creating(job("late")),
        ),
        Start(
            "a suspended job that is resumed late",
            [job("suspended", suspend=True, parallelism=2, completions=2)],
            job_pods_running("suspended", 2),
            _patching("job", "suspended", "replace", "/spec/suspend", False),
            suspect="/suspended to",
        ),
        Start(
            "a job of which pods fail, then succeed",
            [
                config_map("retries", key="no"),
                job(
                    "retries",
                    container(script='test "$LATE" = yes', env=_from(_MAP, "retries")),
                    backoffLimit=6,
                ),
            ],
            lambda client, namespace: wait_for_job_complete(
                client, namespace, "retries", timeout=LIMIT
            ),
            _patching("configmap", "retries", *_OPEN),
        ),
        Start(
            "a job whose pods lack a secret for long",
            [job("poor", container(env=_from(_SECRET, "poor")), parallelism=2, completions=2)],
            job_pods_running("poor", 2),
            _creating(secret("poor", key="late")),
            suspect="/poor to",
        ),
        Start(
            "a job without a service account for long",
            [_with_account(job("stranger", container(script="sleep 1")), "stranger")],
            lambda client, namespace: wait_for_job_pods_succeeded(
                client, namespace, "stranger", 1, timeout=LIMIT
            ),
            _creating(
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "stranger"}}
            ),
        ),
    ]


def label_of(namespace: str) -> str:
    """Return the label that a node gets."""
    return f"kwait-late-{namespace}"[:63].strip("-")


def _with_account(made: dict[str, Any], account: str) -> dict[str, Any]:
    made["spec"]["template"]["spec"]["serviceAccountName"] = account
    return made


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _restarts(pod: dict[str, Any]) -> int:
    statuses = pod["status"].get("containerStatuses") or []
    return sum(status["restartCount"] for status in statuses)

"""Waits end early, with the claim's event, for pods that use a claim with a missing class."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from e2e.objects import claim, container, pod
from e2e.raising import raises
from pytest_kwait import WaitFailed, WaitTimeout, all_of, stable_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait, WaitOptions

    Wait = Callable[..., Any]

LABELS = {"app": "web"}
MISSING = "no-such-class"
GRACE: WaitOptions = {"grace": "1s", "timeout": "1m"}


def template(app: str, **spec: Any) -> dict[str, Any]:
    """Return a template of pods that use the claim `data`."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    made = pod("x", volumes=[volume])["spec"] | {"restartPolicy": "Always"} | spec
    return {"metadata": {"labels": {"app": app}}, "spec": made}


def controller(version: str, kind: str, **spec: Any) -> dict[str, Any]:
    """Return a controller that is named by its kind."""
    name = kind.lower()
    if kind != "Job":
        labels = {"app": name}
        spec["selector"] = labels if version == "v1" else {"matchLabels": labels}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"template": template(name), **spec},
    }


def controllers() -> list[dict[str, Any]]:
    """Return one controller of each kind."""
    return [
        controller("apps/v1", "Deployment"),
        controller("apps/v1", "StatefulSet", serviceName="web"),
        controller("apps/v1", "ReplicaSet"),
        controller("apps/v1", "DaemonSet"),
        controller("v1", "ReplicationController"),
        controller("batch/v1", "Job", template=template("job", restartPolicy="Never")),
    ]


CONDITIONS: dict[str, Any] = {
    "deployment": "condition=Available",
    "statefulset": "jsonpath={.status.readyReplicas}=1",
    "replicaset": "jsonpath={.status.availableReplicas}=1",
    "daemonset": "jsonpath={.status.numberReady}",
    "replicationcontroller": "jsonpath={.status.readyReplicas}=1",
    "job": "condition=Complete",
}


def end_of(wait: Wait, *args: Any, **options: Any) -> str:
    """Return the first line of a failed wait."""
    try:
        wait(*args, **GRACE, **options)
    except (WaitFailed, WaitTimeout) as error:
        return str(error.args[0])
    return "came true"


def test_controllers_whose_pods_use_an_unbound_claim(kwait: Kwait) -> None:
    """In general waits as in those of their kinds, alone, held, combined and selected."""
    made = kwait.create(claim("data", MISSING), *controllers())
    # What every node is to have is known once the controller has looked.
    nodes = kwait.wait_for(
        "daemonset/daemonset", lambda obj: obj["status"]["desiredNumberScheduled"] > 0, **GRACE
    )
    ready = f"jsonpath={{.status.numberReady}}={nodes['status']['desiredNumberScheduled']}"
    conditions = CONDITIONS | {"daemonset": ready}
    available = "condition=Available"
    waits: dict[str, tuple[Any, ...]] = {
        **{
            f"general {name}": (kwait.wait_for, f"{name}/{name}", conditions[name])
            for name in conditions
        },
        "held": (kwait.wait_for, "deployment/deployment", stable_for("1s", available)),
        "combined": (kwait.wait_for, "deployment/deployment", all_of(available, lambda obj: True)),
        "complete": (kwait.wait_for_deployment_complete, "deployment"),
        "running": (kwait.wait_for_stateful_set_running_and_ready, "statefulset", 1),
        "ready": (kwait.wait_for_ready_replica_set, "replicaset"),
        "on nodes": (kwait.wait_for_daemon_set_status, "daemonset"),
        "rc": (kwait.wait_for_rc_pods_running, "replicationcontroller", 1),
        "complete job": (kwait.wait_for_job_complete, "job"),
    }
    # A few at once: the evidence of all together may need longer than its limit.
    with ThreadPoolExecutor(4) as pool:
        futures = {title: pool.submit(end_of, *call) for title, call in waits.items()}
        selected = pool.submit(
            end_of, kwait.wait_for, "deployments", available, selector="app=deployment", count=1
        )
        ends = {title: each.result() for title, each in futures.items()}
        ends["selected"] = selected.result()

    assert len(made) == 7
    event = f'claim data is not bound: ProvisioningFailed: storageclass.storage.k8s.io "{MISSING}"'
    late = {
        title: end for title, end in ends.items() if event not in end or "can no longer" not in end
    }
    assert late == {}


def test_selected_claims_with_a_missing_class(kwait: Kwait) -> None:
    made = claim("data", MISSING)
    made["metadata"]["labels"] = LABELS
    kwait.create(made)
    bound = "jsonpath={.status.phase}=Bound"

    missing = f'data: ProvisioningFailed: storageclass.storage.k8s.io "{MISSING}" not found'
    for condition in (bound, stable_for("1s", bound)):
        with raises(WaitFailed, missing):
            kwait.wait_for("pvc", condition, selector="app=web", **GRACE)
    with raises(WaitFailed, missing):
        kwait.wait_for("pvc", bound, selector="app=web", count=1, **GRACE)


def test_selected_pods_that_wait_for_a_config_map(kwait: Kwait) -> None:
    """Also where a number of them is awaited, and a callable decides beside."""
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "missing", "key": "a"}}}]
    kwait.create(pod("good", labels=LABELS), pod("waits", container(env=env), labels=LABELS))
    missing = 'waits: CreateContainerConfigError: configmap "missing" not found'
    for condition in ("condition=Ready", all_of("condition=Ready", lambda obj: True)):
        with raises(WaitFailed, missing):
            kwait.wait_for("pods", condition, selector="app=web", count=2, **GRACE)

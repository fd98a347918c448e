"""The rights that docs/namespaces.md documents for verbs are enough for each of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.request import urlopen

import pytest
from kubernetes.client import CoreV1Api

from e2e.objects import container, daemon_set, deployment, pod, stateful_set
from e2e.service_accounts import bind, client_of_default, user_name
from pytest_kwait import (
    ApiError,
    annotate,
    cordon,
    create_and_wait,
    debug,
    delete_and_wait,
    drain,
    evict,
    label,
    patch,
    resize,
    restart,
    rolling_update,
    rollout_undo,
    run,
    scale,
    taint,
    update,
    wait_for_rollout_status,
)
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubernetes.client import ApiClient

    from pytest_kwait import Kwait

DOCS = Path(__file__).parents[2] / "docs" / "namespaces.md"
NOTE = {"example.com/note": "1"}
RELEASE = {"spec": {"template": {"metadata": {"labels": {"release": "2"}}}}}
SERVER = "mkdir -p /tmp/www; echo hello > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"
SIZES = {"requests": {"memory": "8Mi"}}
SLEEPER = pod("sleeper", container(script=SERVER, resources=SIZES), labels={"app": "sleeper"})
KINDS = {
    "Deployment": ("deployments.apps", deployment("web", 1)),
    "StatefulSet": ("statefulsets.apps", stateful_set("web", 1)),
    "DaemonSet": ("daemonsets.apps", daemon_set("web")),
    "Pod": ("pods", SLEEPER),
    "Node": ("nodes", {}),
}
Call: TypeAlias = "Callable[[ApiClient, str, str], object]"


def undo(kind: str) -> Call:
    return lambda client, namespace, _: rollout_undo(client, namespace, f"{kind}/web")


def begin_again(kind: str) -> Call:
    return lambda client, namespace, _: restart(client, namespace, f"{kind}/web")


def execute(client: ApiClient, namespace: str, _: str) -> None:
    done = ApiSession.of(client).exec(namespace, "sleeper", ["true"], deadline=Deadline.after(60))
    assert done.exit_code == 0


def read_log(client: ApiClient, namespace: str, _: str) -> None:
    ApiSession.of(client).logs(namespace, "sleeper", deadline=Deadline.after(60))


def forward_port(client: ApiClient, namespace: str, _: str) -> None:
    session, limit = ApiSession.of(client), Deadline.after(60)
    session.get(PODS, "sleeper", namespace, deadline=limit)
    with session.port_forward(namespace, "sleeper", 8080, deadline=limit) as forward:
        address = f"http://127.0.0.1:{forward.port}/"
        with urlopen(address, timeout=60) as answer:
            assert answer.status == 200
    assert forward.errors == []


# The verb and its object, by the words of the documentation.
CALLS: dict[str, Call] = {
    "label of a Deployment": lambda client, namespace, _: label(
        client, namespace, "deployment/web", {"a": "b"}
    ),
    "annotate of a Deployment": lambda client, namespace, _: annotate(
        client, namespace, "deployment/web", NOTE
    ),
    "patch of a Deployment": lambda client, namespace, _: patch(
        client, namespace, "deployment/web", {"metadata": {"annotations": NOTE}}
    ),
    "update of a Deployment": lambda client, namespace, _: update(
        client,
        namespace,
        "deployment/web",
        lambda found: found["metadata"].update(annotations=NOTE),
    ),
    "create_and_wait of a Pod": lambda client, namespace, _: create_and_wait(
        client, namespace, pod("made", container("main", "sleep 600"))
    ),
    "delete_and_wait of a Deployment": lambda client, namespace, _: delete_and_wait(
        client, namespace, "deployment/web", timeout="2m"
    ),
    "scale of a Deployment": lambda client, namespace, _: scale(
        client, namespace, "deployment/web", 2
    ),
    "restart of a Deployment": begin_again("deployment"),
    "restart of a StatefulSet": begin_again("statefulset"),
    "restart of a DaemonSet": begin_again("daemonset"),
    "rolling_update of a Deployment": lambda client, namespace, _: rolling_update(
        client, namespace, "deployment/web", 0, poll="0.2s"
    ),
    "rollout_undo of a Deployment": undo("deployment"),
    "rollout_undo of a StatefulSet": undo("statefulset"),
    "rollout_undo of a DaemonSet": undo("daemonset"),
    "run of a Pod": lambda client, namespace, _: run(
        client, namespace, SLEEPER["spec"]["containers"][0]["image"], ["true"]
    ),
    "exec of a Pod": execute,
    "logs of a Pod": read_log,
    "port_forward of a Pod": forward_port,
    "evict of a Pod": lambda client, namespace, _: evict(
        client, namespace, "sleeper", grace_period=0
    ),
    "debug of a Pod": lambda client, namespace, _: debug(
        client, namespace, "sleeper", SLEEPER["spec"]["containers"][0]["image"], ["sleep", "9"]
    ),
    "resize of a Pod": lambda client, namespace, _: resize(
        client, namespace, "sleeper", requests={"memory": "9Mi"}
    ),
    "cordon of a Node": lambda client, _, node: cordon(client, node),
    "taint of a Node": lambda client, _, node: taint(
        client, node, "example.com/a:PreferNoSchedule"
    ),
    "drain of a Pod": lambda client, _, node: drain(
        client, node, selector={"app": "sleeper"}, force=True, grace_period=0
    ),
}


def documented_rules(verb: str, resource: str) -> list[dict[str, Any]]:
    """Return the rules of a verb by its row in the documentation."""
    section = DOCS.read_text().partition("## Rights of verbs\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*`) \| (.*) \|$", section, re.M)
    (rights,) = [right for names, right in rows if f"`{verb}`" in names]
    rules = []
    for right in rights.split("; "):
        named, _, verbs = right.partition(": ")
        named = named.replace("object", resource)
        plural, _, rest = named.partition(".")
        group, slash, part = rest.partition("/")
        rules.append(
            {
                "apiGroups": [group],
                "resources": [f"{plural}{slash}{part}"],
                "verbs": verbs.split(", "),
            }
        )
    return rules


def prepare(kwait: Kwait, verb: str, kind: str) -> None:
    """Create what the verb changes."""
    made = KINDS[kind][1]
    if not made:
        return
    kwait.create_and_wait(made)
    if verb == "rollout_undo":
        kwait.patch(f"{kind}/web", RELEASE)
        wait_for_rollout_status(kwait.client, kwait.namespace, f"{kind}/web")


@pytest.fixture
def spare_node(kwait: Kwait) -> Iterator[str]:
    """A node without a kubelet, which no other test uses."""
    name = f"spare-{kwait.namespace[-5:]}"
    core: Any = CoreV1Api(kwait.client)
    taint = {"key": "example.com/spare", "value": "only", "effect": "NoSchedule"}
    core.create_node({"metadata": {"name": name}, "spec": {"taints": [taint]}})
    yield name
    core.delete_node(name)


@pytest.mark.parametrize("words", CALLS)
def test_the_documented_rights_are_enough(kwait: Kwait, spare_node: str, words: str) -> None:
    """For a service account that has no other rights."""
    verb, _, kind = words.partition(" of a ")
    prepare(kwait, verb, kind)
    if verb == "drain":
        # On a node of its own: the selector alone does not keep others from being cordoned.
        kwait.delete_and_wait("pod/sleeper", grace_period=0)
        on_spare = {**SLEEPER, "spec": {**SLEEPER["spec"], "nodeName": spare_node}}
        kwait.create(on_spare)
    everywhere = verb in ("cordon", "taint", "drain")
    rules = documented_rules(verb, KINDS[kind][0])
    name = f"{kwait.namespace}-verb"
    kwait.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        }
    )
    bind(kwait, name, everywhere=everywhere)
    # Rights of one binding come together.
    last = rules[-1]
    plural, slash, part = last["resources"][0].partition("/")
    kwait.wait_for_authorization_update(
        user_name(kwait),
        last["verbs"][-1],
        f"{plural}.{last['apiGroups'][0]}".removesuffix(".") + slash + part,
        timeout="4m",
    )

    with client_of_default(kwait) as client:
        CALLS[words](client, kwait.namespace, spare_node)


def test_without_the_right_the_verb_is_refused(kwait: Kwait) -> None:
    kwait.create_and_wait(SLEEPER)
    with client_of_default(kwait) as client, pytest.raises(ApiError) as refused:
        label(client, kwait.namespace, "pod/sleeper", {"a": "b"})
    assert refused.value.status == 403
    assert 'cannot get resource "pods"' in refused.value.message

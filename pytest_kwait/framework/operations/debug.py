"""Add an ephemeral container to a running pod.

Source: kubectl/pkg/cmd/debug/debug.go generateDebugContainer, waitForContainer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

from pytest_kwait.apimachinery.arguments import check_text
from pytest_kwait.apimachinery.validation import check_name, check_namespace, dns_label_texts
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.operations.edit import send_patch
from pytest_kwait.framework.pod.containers import begun, list_container_names
from pytest_kwait.framework.pod.wait import PodGoalCondition
from pytest_kwait.framework.registry import verb

if TYPE_CHECKING:
    from kubernetes.client import ApiClient


@verb(limit="pod_start", kinds={"name": PODS}, summary="the name of the ephemeral container")
def debug(
    client: ApiClient,
    namespace: str,
    name: str,
    image: str,
    command: Sequence[str] = (),
    *,
    target_container: str | None = None,
    container: str | None = None,
    **options: Unpack[WaitOptions],
) -> str:
    """Add an ephemeral container to a pod; return its name once it runs, or has ended.

    As `kubectl debug`, without its profiles: the container has the security context of the pod. It
    cannot be removed from the pod, and is not restarted.

    Args:
        namespace: the namespace of the pod.
        name: its name.
        image: the image of the container.
        command: the program and its arguments, run without a shell. Empty for the image's own,
            whose standard input stays open: a shell then waits.
        target_container: the container whose processes it sees; None for its own alone.
        container: the name of the new one; None for a generated one, `debugger-1a2b3`.

    Raises:
        ApiError: the pod does not exist, or the server refuses the container.
        InvalidArgument: an argument is invalid, the pod has no container `target_container`, or it
            has one named `container` already.
        WaitFailed: the container cannot start, or the pod has ended.
        WaitTimeout: it did not start within the limit.
    """
    session = ApiSession.of(client)
    check_namespace(namespace)
    check_name("name", name)
    check_text("image", image)
    _check_command(command)
    if target_container is not None:
        check_text("target_container", target_container)
    if container is not None:
        _check_container_name(container)
    added = container or f"debugger-{uuid4().hex[:5]}"
    settings = resolve_options(options, timeout="pod_start", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    with within_deadline(deadline, f"pod {name} could not get an ephemeral container"):
        there = request_with_retry(
            lambda attempt_deadline: session.get(PODS, name, namespace, deadline=attempt_deadline),
            deadline,
        )
        _check_containers(there, added, target_container)
        order = [{"name": each["name"]} for each in there["spec"].get("ephemeralContainers") or ()]
        patch = {
            # A pod of the same name that was made meanwhile is another one.
            "metadata": {"uid": there["metadata"].get("uid")},
            "spec": {
                "ephemeralContainers": [_make_container(added, image, command, target_container)],
                # As the last one, as kubectl adds it.
                "$setElementOrder/ephemeralContainers": [*order, {"name": added}],
            },
        }
        send_patch(
            session, PODS, name, namespace, patch, "strategic", "ephemeralcontainers", deadline
        )
    condition = PodGoalCondition(namespace, name, begun(added))
    condition.object.uid = there["metadata"].get("uid") or ""
    wait_for_condition(session, condition, settings, deadline)
    return added


def _make_container(
    name: str, image: str, command: Sequence[str], target: str | None
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": image}
    if command:
        container["command"] = list(command)
    else:
        container["stdin"] = True
    if target is not None:
        container["targetContainerName"] = target
    return container


def _check_command(command: object) -> None:
    if (
        isinstance(command, str)
        or not isinstance(command, Sequence)
        or not all(isinstance(word, str) for word in command)
    ):
        raise InvalidArgument("command", command, "use texts: the program and its arguments")


def _check_container_name(name: object) -> None:
    if not isinstance(name, str) or dns_label_texts(name):
        valid = "use a DNS label, for example 'debugger', or None for a generated name"
        raise InvalidArgument("container", name, valid)


def _check_containers(pod: dict[str, Any], name: str, target: str | None) -> None:
    """Check the names against the containers of a pod, which the server names by paths alone."""
    if name in list_container_names(pod):
        valid = "the pod has a container of that name, which cannot be changed; give another name"
        raise InvalidArgument("container", name, valid)
    names = [each["name"] for each in pod["spec"]["containers"]]
    names += [each["name"] for each in pod["spec"].get("initContainers") or ()]
    if target is not None and target not in names:
        raise InvalidArgument("target_container", target, f"the pod has {', '.join(names)}")

"""Run a pod to its end and return its output.

Source: kubernetes/test/e2e/framework/pod/output/output.go TestContainerOutput.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.failure.redaction import make_redactor, redact_log
from pytest_kwait.engine.options import WaitOptions, check_bool, resolve_options
from pytest_kwait.engine.retry import create_once, request_with_retry, within_deadline
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, describe_value
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.framework.pod.wait import wait_for_pod_no_longer_running
from pytest_kwait.framework.registry import condition_of, verb
from pytest_kwait.framework.terminal_states.pods import describe_pod_end
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_CONTAINER = "run"
_REMOVAL_TIMEOUT = 10.0
"""Maximum seconds of the request that deletes the pod."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a pod that has ended.

    Args:
        exit_code: the exit code of its container; None if that was never started.
        output: the log of its container.
        pod: the pod at its end.
    """

    exit_code: int | None
    output: str
    pod: dict[str, Any]

    def __repr__(self) -> str:
        return f"RunResult(exit_code={self.exit_code}, output={describe_value(self.output)})"


@verb(limit="pod", summary="the output of a pod that has ended")
def run(
    client: ApiClient,
    namespace: str,
    image: str | Mapping[str, Any],
    command: Sequence[str] = (),
    *,
    env: Mapping[str, str] | None = None,
    container: str | None = None,
    check: bool = True,
    **options: Unpack[WaitOptions],
) -> RunResult:
    """Create a pod, wait for its end, and return its output; the pod is deleted afterwards.

    Args:
        namespace: the namespace of the pod.
        image: the image of its only container; or a whole Pod, whose restart policy is `Never`
            if it names none.
        command: the program and its arguments, run without a shell; empty for the image's own.
        env: environment variables of the container.
        container: for a whole Pod, the container whose output and exit code count; None for the
            first one.
        check: whether an end with another exit code than 0 is an error.

    Raises:
        ApiError: the server refuses the pod.
        InvalidArgument: an argument is invalid.
        WaitFailed: the pod cannot start; with `check`, it failed: names exit code and output.
        WaitTimeout: it did not end within the limit.
    """
    session = ApiSession.of(client)
    check_namespace(namespace)
    settings = resolve_options(options, timeout="pod", session=session)
    check_bool("check", check)
    manifest, counted = _make_pod(image, command, env, container)
    deadline = Deadline.after(settings.timeout, session.clock)
    with within_deadline(deadline, "the pod could not be created"):
        errors = WriteErrors(session, options)
        made = create_once(session, PODS, manifest, namespace, deadline, errors=errors)
    name, uid = made["metadata"]["name"], made["metadata"].get("uid") or ""
    try:
        condition = condition_of(wait_for_pod_no_longer_running)(namespace, name)
        condition.object.uid = uid
        pod = wait_for_condition(session, condition, settings, deadline)
        exit_code = _exit_code(pod, counted)
        output = ""
        if exit_code is not None:
            with within_deadline(deadline, f"the log of pod {name} could not be read"):
                output = request_with_retry(
                    lambda attempt_deadline: session.logs(
                        namespace, name, container=counted, deadline=attempt_deadline
                    ),
                    deadline,
                )
    finally:
        _delete(session, namespace, name, uid)
    if check and (exit_code != 0 or pod["status"].get("phase") != "Succeeded"):
        ended = describe_pod_end(pod) or f"exit code {exit_code}"
        # Redact before cutting: a part of a value is no longer recognized.
        tail = redact_log(output, make_redactor(session.credentials()))[-2000:].rstrip()
        output_text = f"; its output:\n{tail}" if tail else "; it wrote nothing"
        raise WaitFailed(f"pod {namespace}/{name} did not succeed: {ended}{output_text}")
    return RunResult(exit_code, output, pod)


def _make_pod(
    image: str | Mapping[str, Any],
    command: Sequence[str],
    env: Mapping[str, str] | None,
    container: str | None,
) -> tuple[dict[str, Any], str]:
    """Return the pod to create, and the container that counts."""
    _check_command_and_env(command, env)
    if isinstance(image, str):
        if not image:
            raise InvalidArgument("image", image, "name an image, or give a Pod")
        only: dict[str, Any] = {"name": _CONTAINER, "image": image}
        if command:
            only["command"] = list(command)
        if env:
            only["env"] = [{"name": name, "value": value} for name, value in env.items()]
        if container is not None:
            raise InvalidArgument("container", container, "name one only with a whole Pod")
        spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [only]}
        metadata: dict[str, Any] = {"name": f"run-{uuid4().hex[:8]}"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, _CONTAINER
    whole: object = image
    if not isinstance(whole, Mapping) or whole.get("kind", "Pod") != "Pod":
        raise InvalidArgument("image", image, "use the name of an image, or a Pod")
    if command or env:
        raise InvalidArgument("command", command, "leave command and env to the Pod that is given")
    spec = {"restartPolicy": "Never", **(image.get("spec") or {})}
    if spec["restartPolicy"] == "Always":
        raise InvalidArgument("image", image, "its restartPolicy is Always, so it never ends")
    names = [str(spec_container.get("name")) for spec_container in spec.get("containers") or ()]
    if not names or (container is not None and container not in names):
        valid = f"one of the containers of the Pod: {', '.join(names) or 'it has none'}"
        raise InvalidArgument("container", container, valid)
    metadata = dict(image.get("metadata") or {})
    if "name" not in metadata:
        metadata["name"] = f"{metadata.pop('generateName', 'run-')}{uuid4().hex[:8]}"
    made = {**image, "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return made, container or names[0]


def _check_command_and_env(command: object, env: object) -> None:
    if (
        isinstance(command, str)
        or not isinstance(command, Sequence)
        or not all(isinstance(word, str) for word in command)
    ):
        raise InvalidArgument("command", command, "use texts: the program and its arguments")
    if env is None:
        return
    if not isinstance(env, Mapping) or not all(
        isinstance(name, str) and isinstance(value, str) for name, value in env.items()
    ):
        raise InvalidArgument("env", env, 'use a mapping of names to texts: {"COLOUR": "red"}')


def _exit_code(pod: Mapping[str, Any], container: str) -> int | None:
    for status in pod["status"].get("containerStatuses") or ():
        if status.get("name") == container:
            ended = (status.get("state") or {}).get("terminated") or {}
            code = ended.get("exitCode")
            return code if isinstance(code, int) else None
    return None


def _delete(session: ApiSession, namespace: str, name: str, uid: str) -> None:
    # The namespace's end removes it otherwise; the result must not get lost.
    with contextlib.suppress(ApiError, DeadlineExceeded):
        request_with_retry(
            lambda attempt_deadline: session.delete(
                PODS, name, namespace, uid=uid or None, deadline=attempt_deadline
            ),
            Deadline.after(_REMOVAL_TIMEOUT, session.clock),
        )

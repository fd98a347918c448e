"""Ephemeral containers beside those of a running pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.objects import container, pod
from e2e.raising import raises
from pytest_kwait import InvalidArgument, WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait

IMAGE = "busybox:1.36"


def test_commands_run_in_an_ephemeral_container(kwait: Kwait) -> None:
    """Without a command its shell waits, so that `exec` finds it running."""
    kwait.create_and_wait(pod("web"))

    name = kwait.debug("web", IMAGE)

    assert name.startswith("debugger-")
    done = kwait.exec("web", "echo", "here", container=name)
    assert (done.exit_code, done.stdout) == (0, "here\n")
    second = kwait.debug(kwait.get("pod/web"), IMAGE, "sleep", "300")
    added = kwait.get("pod/web")["spec"]["ephemeralContainers"]
    assert [each["name"] for each in added] == [name, second]


def test_the_log_of_a_command_that_ends(kwait: Kwait) -> None:
    kwait.create_and_wait(pod("web"))

    name = kwait.debug(
        "web", IMAGE, "sh", "-c", "echo seen", target_container="main", container="look"
    )

    assert name == "look"
    kwait.wait_for_container_terminated("web", name)
    assert kwait.logs("web", container=name) == "seen\n"


def test_the_processes_of_the_target(kwait: Kwait) -> None:
    kwait.create_and_wait(pod("web", container("server", "exec sleep 123")))

    name = kwait.debug("web", IMAGE, target_container="server")

    assert "sleep 123" in kwait.exec("web", "ps", container=name).stdout
    alone = kwait.debug("web", IMAGE)
    assert "sleep 123" not in kwait.exec("web", "ps", container=alone).stdout


def test_names_are_checked_against_the_pod(kwait: Kwait) -> None:
    kwait.create_and_wait(pod("web", container("server"), container("proxy")))
    kwait.debug("web", IMAGE, container="look")

    with raises(InvalidArgument, "target_container='main' is not valid: the pod has server, proxy"):
        kwait.debug("web", IMAGE, target_container="main")
    for taken in ("look", "proxy"):
        with raises(InvalidArgument, f"container='{taken}' is not valid: the pod has a container"):
            kwait.debug("web", IMAGE, container=taken)


def test_an_image_that_cannot_be_had(kwait: Kwait) -> None:
    """The wait ends early, with the reason of the ephemeral container."""
    kwait.create_and_wait(pod("web"))

    with raises(WaitFailed, "can no longer have container look running: InvalidImageName"):
        kwait.debug("web", "Not An Image", container="look", grace="1s")


def test_a_pod_that_has_ended(kwait: Kwait) -> None:
    kwait.create(pod("task", container(script="exit 0")))
    kwait.wait_for_pod_success("task")

    with raises(WaitFailed, "the pod has succeeded"):
        kwait.debug("task", IMAGE)

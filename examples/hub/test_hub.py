"""A hub that starts a server for each user: pods that the product makes, and waits for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait

# Elsewhere its programs would share one network and the files of the machine.
pytestmark = pytest.mark.kwait_skip_unless_programs_isolated


def ask(hub: Kwait, path: str, method: str = "GET") -> dict[str, Any]:
    """Return the hub's answer to a request, also one that is refused."""
    request = Request(hub.url("service/hub", path=path), method=method)
    try:
        with urlopen(request, timeout=10) as answer:
            body: dict[str, Any] = json.load(answer)
    except HTTPError as error:
        body = json.load(error)
    return body


def test_each_user_has_a_server(hub: Kwait) -> None:
    """The hub leads each user to the pod that it has made."""
    for user in ("ann", "bob"):
        ask(hub, f"/servers/{user}", "PUT")
    hub.wait_for_pods_with_label_running_ready("app=server", 2)

    assert ask(hub, "/user/ann/") == {"user": "ann", "requests": 1}
    assert ask(hub, "/user/bob/") == {"user": "bob", "requests": 1}
    assert ask(hub, "/user/ann/") == {"user": "ann", "requests": 2}


def test_servers_outlive_the_hub(hub: Kwait) -> None:
    """A new hub finds them by their pods, and starts no second one."""
    ask(hub, "/servers/ann", "PUT")
    server = hub.wait_for_pods_with_label_running_ready("user=ann", 1)[0]
    assert ask(hub, "/user/ann/")["requests"] == 1

    hub.restart("deployment/hub")

    assert ask(hub, "/servers/ann", "PUT") == {"state": "ready"}
    assert ask(hub, "/user/ann/")["requests"] == 2
    pods = hub.list("pods", selector="app=server")
    assert [pod["metadata"]["uid"] for pod in pods] == [server["metadata"]["uid"]]


def test_a_stopped_server_is_gone(hub: Kwait) -> None:
    """The wait for its deletion names the pod that is still there, if one is."""
    ask(hub, "/servers/ann", "PUT")
    hub.wait_for_pods_with_label_running_ready("user=ann", 1)

    ask(hub, "/servers/ann", "DELETE")

    hub.wait_for("pod/server-ann", "delete")
    assert ask(hub, "/user/ann/") == {"state": "absent"}


def test_a_user_too_many(hub: Kwait) -> None:
    """What the API server refuses, the hub hands on."""
    used = len(hub.list("pods"))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "users"},
        "spec": {"hard": {"pods": used + 1}},
    }
    hub.create(quota)
    hub.wait_for("resourcequota/users", f"jsonpath={{.status.used.pods}}={used}")
    ask(hub, "/servers/ann", "PUT")

    refused = ask(hub, "/servers/bob", "PUT")

    assert "exceeded quota: users" in refused["error"]
    assert ask(hub, "/servers/bob") == {"state": "absent"}


@pytest.mark.parametrize("hub", ["example.com/hub/Server:1"], indirect=True, ids=["typo"])
def test_a_server_that_cannot_start(hub: Kwait) -> None:
    """The wait ends at once with the reason; the hub tells the user as well."""
    ask(hub, "/servers/ann", "PUT")
    with pytest.raises(WaitFailed, match="InvalidImageName"):
        hub.wait_for_pods_with_label_running_ready("user=ann", 1)

    assert ask(hub, "/servers/ann") == {"state": "failed", "reason": "InvalidImageName"}

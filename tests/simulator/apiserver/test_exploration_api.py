"""The API of explorations, and what they do to requests over HTTP."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import urllib3

from pytest_kwait.simulator.apiserver.handlers import watch
from pytest_kwait.simulator.apiserver.handlers.listing import encode_continue_token
from pytest_kwait.simulator.no_exploration import NoExploration
from tests.simulator.exploration.seeds import find_seed, hold_for, running_exploration

if TYPE_CHECKING:
    from tests.simulator.apiserver.conftest import Served

PATH = "/kwait/v1/exploration"
MAPS = "/api/v1/namespaces/default/configmaps"


def explore(served: Served, seed: int, level: str = "harsh", only: list[str] | None = None) -> None:
    answer = served.send("PUT", PATH, {"seed": seed, "level": level, "only": only})
    assert (answer.status, answer.json()) == (200, {}), answer.data


def create_map(served: Served, name: str = "a") -> dict[str, Any]:
    made: dict[str, Any] = served.json("POST", MAPS, {"metadata": {"name": name}})
    return made


def test_exploration_is_started_reported_and_ended(served: Served) -> None:
    explore(served, 7, "usual", ["watch-delay", "work-delay@work scheduler web 1"])
    report = {
        "seed": 7,
        "level": "usual",
        "only": ["watch-delay", "work-delay@work scheduler web 1"],
        "applied": [],
        "dropped": 0,
    }
    assert served.json("GET", PATH) == report
    assert served.json("DELETE", PATH) == report
    answer = served.send("GET", PATH)
    assert answer.status == 404
    assert answer.json()["message"] == "no exploration runs: PUT starts one"
    assert served.send("DELETE", PATH).status == 404
    assert type(served.api.exploration) is NoExploration


def test_exploration_replaces_the_running_one(served: Served) -> None:
    explore(served, 1)
    first = running_exploration(served.api)
    explore(served, 2, "gentle")
    assert first is not None
    assert first.has_ended
    assert served.json("GET", PATH)["seed"] == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"level": "usual"}, "seed: None is invalid: use an integer"),
        ({"seed": True, "level": "usual"}, "seed: True is invalid: use an integer"),
        ({"seed": -1, "level": "usual"}, f"seed: -1 is invalid: use 0 to {2**63 - 1}"),
        ({"seed": 1}, "level: None is invalid: use gentle, usual, harsh"),
        ({"seed": 1, "level": "wild"}, "level: 'wild' is invalid: use gentle, usual, harsh"),
        (
            {"seed": 1, "level": "usual", "only": "watch-delay"},
            "only: 'watch-delay' is invalid: use a list of strings or null",
        ),
        (
            {"seed": 1, "level": "usual", "only": [1]},
            "only: [1] is invalid: use a list of strings or null",
        ),
        ({"seed": 1, "speed": 1}, "speed: unknown field: an exploration has level, only, seed"),
        ([], "an exploration is an object"),
    ],
)
def test_invalid_exploration_names_the_value(served: Served, body: object, message: str) -> None:
    answer = served.send("PUT", PATH, body)
    assert (answer.status, answer.json()["message"]) == (400, message)


def test_unknown_perturbation_is_refused_with_the_known_ones(served: Served) -> None:
    answer = served.send("PUT", PATH, {"seed": 1, "level": "usual", "only": ["slow@e 1"]})
    assert answer.status == 400
    assert answer.json()["message"].startswith("only: 'slow' is unknown: use one of work-delay, ")


def test_exploration_has_no_other_methods(served: Served) -> None:
    assert served.send("POST", PATH, {}).status == 405


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("too-many-requests", 429, "TooManyRequests"),
        ("service-unavailable", 503, "ServiceUnavailable"),
    ],
)
def test_request_is_refused_before_anything_is_done(
    served: Served, name: str, status: int, reason: str
) -> None:
    seed = find_seed("harsh", [(name, "request create configmaps 1")])
    explore(served, seed, only=[name])
    answer = served.send("POST", MAPS, {"metadata": {"name": "a"}})
    assert (answer.status, answer.headers["Retry-After"]) == (status, "1")
    body = answer.json()
    assert (body["reason"], body["details"]) == (reason, {"retryAfterSeconds": 1})
    assert served.run(lambda: served.api.list("configmaps", "default")) == []
    assert [one["event"] for one in served.json("DELETE", PATH)["applied"]] == [
        "request create configmaps 1"
    ]


def test_requests_of_each_client_have_their_own_events(served: Served) -> None:
    event = "request get configmaps a by admin/kopf 2"
    seed = find_seed("harsh", [("too-many-requests", event)])
    explore(served, seed, only=[f"too-many-requests@{event}"])
    path = f"{MAPS}/a"
    statuses = [
        served.send("GET", path, User_Agent=agent).status
        for agent in ("kopf/1", "kr8s/1", "kr8s/1", "python-requests/2", "kopf/1", "kopf/1")
    ]
    statuses += [served.send("GET", path).status for _ in range(3)]
    assert statuses == [404] * 4 + [429] + [404] * 4
    assert [one["event"] for one in served.json("DELETE", PATH)["applied"]] == [event]


def test_a_client_is_refused_whatever_another_one_is(served: Served) -> None:
    events = [f"request get configmaps a by admin/{name} 1" for name in ("kopf", "kr8s")]
    seed = find_seed("harsh", [("too-many-requests", event) for event in events])
    explore(served, seed, only=[f"too-many-requests@{event}" for event in events])
    agents = ("kopf/1", "kr8s/1")
    statuses = [served.send("GET", f"{MAPS}/a", User_Agent=each).status for each in agents]
    assert statuses == [429, 429]


def test_updates_lists_and_watches_have_the_client(served: Served) -> None:
    made = create_map(served)
    events = {
        "update-conflict": "write configmaps a by admin/kopf 1",
        "list-expired": "list configmaps by admin/kopf 1",
        "watch-expired": "watch configmaps by admin/kopf 1",
    }
    seed = find_seed("harsh", events.items())
    explore(served, seed, only=[f"{name}@{event}" for name, event in events.items()])
    hold_for(running_exploration(served.api), 0)
    version = made["metadata"]["resourceVersion"]
    agent = {"User_Agent": "kopf/1"}
    assert served.send("PUT", f"{MAPS}/a", {**made, "data": {"a": "b"}}, **agent).status == 200
    token = encode_continue_token(int(version), "0")
    for status, headers in ((200, {}), (410, agent)):
        answer = served.send("GET", f"{MAPS}?limit=1&continue={token}", **headers)
        assert answer.status == status
    path = f"{MAPS}?watch=1&resourceVersion={version}"
    changed = next(served.watch(path))
    expired = next(served.watch(path, **{"User-Agent": "kopf/1"}))
    assert (changed["type"], expired["object"]["code"]) == ("MODIFIED", 410)
    applied = served.json("DELETE", PATH)["applied"]
    assert {one["name"]: one["event"] for one in applied} == events


def test_a_namespace_that_was_deleted_before_is_left_alone(served: Served) -> None:
    # A finalizer holds it, as its pods do for a while.
    spec = {"finalizers": ["example.com/hold"]}
    served.json("POST", "/api/v1/namespaces", {"metadata": {"name": "old"}, "spec": spec})
    served.json("DELETE", "/api/v1/namespaces/old")
    names = ["too-many-requests", "service-unavailable"]
    explore(served, 3, only=names)
    for namespace in ("old", "default"):
        path = f"/api/v1/namespaces/{namespace}/secrets"
        assert {served.send("GET", path).status for _ in range(300)} >= {200}
    applied = served.json("DELETE", PATH)["applied"]
    assert {one["event"] for one in applied} <= {f"request list secrets {n}" for n in range(301)}
    assert applied


def test_gentle_exploration_refuses_only_what_clients_repeat(served: Served) -> None:
    seed = find_seed("gentle", [("too-many-requests", "request create configmaps 1")])
    explore(served, seed, "gentle", ["too-many-requests"])
    assert served.send("POST", MAPS, {"metadata": {"name": "a"}}).status == 201
    seed = find_seed("gentle", [("too-many-requests", "request get configmaps a 1")])
    explore(served, seed, "gentle", ["too-many-requests"])
    assert served.send("GET", f"{MAPS}/a").status == 429
    assert served.send("GET", f"{MAPS}/a").status == 200


def test_requests_outside_resources_are_not_refused(served: Served) -> None:
    explore(served, 3, only=["too-many-requests", "service-unavailable"])
    for path in ("/version", "/healthz", "/apis", "/openapi/v2"):
        assert all(served.send("GET", path).status == 200 for _ in range(60)), path
    assert served.json("DELETE", PATH)["applied"] == []


class Update(threading.Thread):
    """An update that may be held."""

    def __init__(self, served: Served, body: dict[str, Any], method: str = "PUT") -> None:
        super().__init__()
        self._served = served
        self._body = body
        self._method = method
        self.status = 0
        self.start()

    def run(self) -> None:
        path = f"{MAPS}/{self._body['metadata']['name']}"
        headers = {}
        if self._method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        self.status = self._served.send(self._method, path, self._body, **headers).status

    def end(self) -> int:
        self.join(10)
        return self.status


def wait_until_held(served: Served) -> None:
    """Return once an update is held; its watcher is the last step of that."""
    while not served.run(lambda: served.api.store.watchers("configmaps")):
        pass


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_update_waits_for_another_write_and_conflicts(served: Served, method: str) -> None:
    made = create_map(served)
    seed = find_seed("harsh", [("update-conflict", "write configmaps a 1")])
    explore(served, seed, only=["update-conflict"])
    hold_for(running_exploration(served.api), 600)
    update = Update(served, {**made, "data": {"by": "client"}}, method)
    wait_until_held(served)
    served.run(
        lambda: served.api.modify("configmaps", "a", "default", lambda one: one.update(data={}))
    )
    served.run(lambda: served.api.modify("configmaps", "a", "default", _set_other))
    assert update.end() == 409
    assert served.json("GET", f"{MAPS}/a")["data"] == {"by": "other"}


def _set_other(obj: dict[str, Any]) -> None:
    obj["data"] = {"by": "other"}


def test_held_update_succeeds_when_nothing_else_is_written(served: Served) -> None:
    made = create_map(served)
    seed = find_seed("harsh", [("update-conflict", "write configmaps a 1")])
    explore(served, seed, only=["update-conflict"])
    hold_for(running_exploration(served.api), 600)
    update = Update(served, {**made, "data": {"by": "client"}})
    wait_until_held(served)
    assert len(served.json("DELETE", PATH)["applied"]) == 1
    assert update.end() == 200
    assert served.json("GET", f"{MAPS}/a")["data"] == {"by": "client"}
    assert served.run(lambda: served.api.store.watchers("configmaps")) == 0


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_update_without_a_resource_version_is_not_held(served: Served, method: str) -> None:
    create_map(served)
    seed = find_seed("harsh", [("update-conflict", "write configmaps a 1")])
    explore(served, seed, only=["update-conflict"])
    body = {"metadata": {"name": "a"}, "data": {"resourceVersion": "1"}}
    assert Update(served, body, method).end() == 200
    assert served.json("DELETE", PATH)["applied"] == []


def test_watch_from_an_earlier_revision_expires_once(served: Served) -> None:
    version = create_map(served)["metadata"]["resourceVersion"]
    create_map(served, "b")
    seed = find_seed("harsh", [("watch-expired", "watch configmaps 1")])
    explore(served, seed, only=["watch-expired@watch configmaps 1"])
    events = list(served.watch(f"{MAPS}?watch=1&resourceVersion={version}"))
    latest = served.api.store.revision
    assert [(one["type"], one["object"]["code"]) for one in events] == [("ERROR", 410)]
    assert events[0]["object"]["message"] == f"too old resource version: {version} ({latest})"
    following = served.watch(f"{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    assert next(following)["object"]["metadata"]["name"] == "b"
    following.close()


def test_a_watch_that_an_earlier_test_left_takes_no_number(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its namespace is gone, and it sends bookmarks alone."""
    monkeypatch.setattr(watch, "_BOOKMARK_PAUSE", 0.01)
    with closing(
        served.watch("/api/v1/namespaces/gone/configmaps?watch=1&allowWatchBookmarks=1")
    ) as left:
        assert next(left)["type"] == "BOOKMARK"
        version = create_map(served)["metadata"]["resourceVersion"]
        seed = find_seed("harsh", [("watch-expired", "watch configmaps 1")])
        explore(served, seed, only=["watch-expired@watch configmaps 1"])
        latest = create_map(served, "b")["metadata"]["resourceVersion"]
        versions = (bookmark["object"]["metadata"]["resourceVersion"] for bookmark in left)
        assert next(one for one in versions if int(one) >= int(latest))
        event = next(served.watch(f"{MAPS}?watch=1&resourceVersion={version}"))
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_continue_token_expires_with_one_to_go_on(served: Served) -> None:
    for name in "abc":
        create_map(served, name)
    page = served.json("GET", f"{MAPS}?limit=1")
    create_map(served, "d")
    seed = find_seed("harsh", [("list-expired", "list configmaps 1")])
    explore(served, seed, only=["list-expired@list configmaps 1"])
    token = page["metadata"]["continue"]
    answer = served.send("GET", f"{MAPS}?limit=1&continue={token}")
    assert (answer.status, answer.json()["reason"]) == (410, "Expired")
    onward = answer.json()["metadata"]["continue"]
    assert onward == encode_continue_token(-1, "a")
    rest = served.json("GET", f"{MAPS}?continue={onward}")
    assert [one["metadata"]["name"] for one in rest["items"]] == ["b", "c", "d"]


def test_watch_ends_in_front_of_an_event(served: Served) -> None:
    seed = find_seed("harsh", [("watch-end", "watch configmaps 1 ADDED c 1")])
    explore(served, seed, only=["watch-end"])
    version = create_map(served)["metadata"]["resourceVersion"]
    events = served.watch(f"{MAPS}?watch=1&resourceVersion={version}")
    names: list[str] = []
    reader = threading.Thread(
        target=lambda: names.extend(one["object"]["metadata"]["name"] for one in events)
    )
    reader.start()
    wait_until_held(served)
    sent = create_map(served, "b")["metadata"]["resourceVersion"]
    create_map(served, "c")
    reader.join(10)
    assert (names, reader.is_alive()) == (["b"], False)
    onward = served.watch(f"{MAPS}?watch=1&resourceVersion={sent}&timeoutSeconds=1")
    assert next(onward)["object"]["metadata"]["name"] == "c"
    onward.close()


def test_late_events_are_sent_when_the_exploration_ends(served: Served) -> None:
    seed = find_seed("harsh", [("watch-delay", "watch configmaps 1 ADDED b 1")])
    version = create_map(served)["metadata"]["resourceVersion"]
    explore(served, seed, only=["watch-delay"])
    hold_for(running_exploration(served.api), 600)
    events = served.watch(f"{MAPS}?watch=1&resourceVersion={version}")
    found: list[str] = []

    def read() -> None:
        found.extend(next(events)["object"]["metadata"]["name"] for _ in range(2))
        events.close()

    reader = threading.Thread(target=read)
    reader.start()
    wait_until_held(served)
    create_map(served, "b")
    create_map(served, "c")
    assert found == []
    served.send("DELETE", PATH)
    reader.join(10)
    assert found == ["b", "c"]


def test_initial_events_of_a_watch_are_late_and_before_changes(served: Served) -> None:
    seed = find_seed("harsh", [("watch-delay", "watch configmaps 1 ADDED a 1")])
    create_map(served)
    explore(served, seed, only=["watch-delay"])
    hold_for(running_exploration(served.api), 600)
    events = served.watch(f"{MAPS}?watch=1&fieldSelector=metadata.name!=kube-root-ca.crt")
    found: list[str] = []

    def read() -> None:
        found.extend(next(events)["object"]["metadata"]["name"] for _ in range(2))
        events.close()

    reader = threading.Thread(target=read)
    reader.start()
    wait_until_held(served)
    create_map(served, "b")
    assert found == []
    served.send("DELETE", PATH)
    reader.join(10)
    assert found == ["a", "b"]


class Follower(threading.Thread):
    """A client that lists and watches as client-go does, until it sees the map `stop`."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self._served = served
        self.names: dict[str, str] = {}
        """The data of the maps by name."""
        self.faults: list[str] = []
        self.start()

    def run(self) -> None:
        version = self._list()
        while "stop" not in self.names:
            path = f"{MAPS}?watch=1&resourceVersion={version}"
            try:
                with closing(self._served.watch(path)) as events:
                    for event in events:
                        if event["type"] == "ERROR":
                            version = self._list()
                            break
                        version = self._apply(event, version)
                        if "stop" in self.names:
                            break
            except urllib3.exceptions.HTTPError:
                continue  # cut: it goes on from the last event

    def _list(self) -> str:
        found = self._served.json("GET", MAPS)
        self.names = {one["metadata"]["name"]: one["data"]["n"] for one in found["items"]}
        version: str = found["metadata"]["resourceVersion"]
        return version

    def _apply(self, event: dict[str, Any], version: str) -> str:
        metadata = event["object"]["metadata"]
        if int(metadata["resourceVersion"]) <= int(version):
            self.faults.append(f"{metadata['resourceVersion']} after {version}")
        name, is_known = metadata["name"], metadata["name"] in self.names
        if is_known is (event["type"] == "ADDED"):
            self.faults.append(f"{event['type']} of {name}, known: {is_known}")
        if event["type"] == "DELETED":
            del self.names[name]
        else:
            self.names[name] = event["object"]["data"]["n"]
        later: str = metadata["resourceVersion"]
        return later


@pytest.mark.parametrize("seed", range(3))
def test_clients_that_list_and_watch_miss_nothing(served: Served, seed: int) -> None:
    explore(served, seed, only=["watch-delay", "watch-end", "watch-cut", "watch-expired"])
    hold_for(running_exploration(served.api), 0.005)
    followers = [Follower(served) for _ in range(2)]
    draw = random.Random(seed)
    for number in range(120):
        name = f"m{draw.randrange(6)}"
        served.run(partial(_write_or_delete, served, name, str(number)))
    served.run(partial(_write_or_delete, served, "stop", "1"))
    for follower in followers:
        follower.join(20)
        assert (follower.is_alive(), follower.faults) == (False, [])
        present = served.json("GET", MAPS)["items"]
        assert follower.names == {one["metadata"]["name"]: one["data"]["n"] for one in present}
    assert {one["name"] for one in served.json("DELETE", PATH)["applied"]} >= {
        "watch-cut",
        "watch-delay",
        "watch-end",
    }


def _write_or_delete(served: Served, name: str, data: str) -> None:
    """Create a map, or change or delete the present one."""
    present = served.api.find("configmaps", name, "default")
    if present is None:
        served.api.create(
            "configmaps", {"metadata": {"name": name}, "data": {"n": data}}, "default"
        )
    elif int(data) % 3:
        served.api.modify("configmaps", name, "default", lambda one: one["data"].update(n=data))
    else:
        served.api.delete("configmaps", name, "default")

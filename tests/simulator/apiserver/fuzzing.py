"""Fuzzing of the server: random bytes, queries, patches and bodies.

`python -m tests.simulator.apiserver.fuzzing SECONDS [SEED]` runs longer than the tests do, and
prints the seed of a failure.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from tests.simulator.apiserver.conftest import ADMIN, Served

if TYPE_CHECKING:
    from collections.abc import Callable

MAPS = "/api/v1/namespaces/default/configmaps"
TARGETS: dict[str, dict[str, Any]] = {
    MAPS: {"metadata": {"name": "x", "labels": {"a": "1"}}, "data": {"k": "v"}},
    "/api/v1/namespaces/default/pods": {
        "metadata": {"name": "x", "finalizers": ["example.com/a"]},
        "spec": {
            "containers": [{"name": "c", "image": "x:1", "ports": [{"containerPort": 80}]}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
        },
    },
    "/apis/apps/v1/namespaces/default/deployments": {
        "metadata": {"name": "x"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "x:1"}]},
            },
        },
    },
}
PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


class Watchful(logging.Handler):
    """A server with objects, and the errors that its process logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.complaints: list[str] = []
        self.served = Served()
        logging.getLogger("aiohttp.server").addHandler(self)
        logging.getLogger("asyncio").addHandler(self)
        for path, obj in TARGETS.items():
            made = self.served.send("POST", path, obj)
            assert made.status == 201, made.data

    def emit(self, record: logging.LogRecord) -> None:
        """Record a log entry."""
        self.complaints.append(logging.Formatter("%(message)s").format(record))

    def end(self) -> None:
        """Stop the server."""
        logging.getLogger("aiohttp.server").removeHandler(self)
        logging.getLogger("asyncio").removeHandler(self)
        self.served.close()

    def check(self) -> None:
        """Fail if an error was logged or the server is gone."""
        complaints, self.complaints = self.complaints, []
        assert not complaints, complaints[0]
        assert self.served.send("GET", f"{MAPS}/x").status == 200

    def send(self, method: str, path: str, body: bytes | None, **headers: str) -> int:
        """Return the status of a response without a server error; 0 for a cut connection."""
        try:
            answer = self.served.send(method, path, body, **headers)
        except urllib3.exceptions.HTTPError:
            return 0
        assert b"Server got itself in trouble" not in answer.data, self.complaints
        return answer.status

    def noise(self, data: bytes) -> None:
        """Send bytes, stop sending, and read until the connection ends."""
        with socket.create_connection(("127.0.0.1", self.served.port), timeout=30.0) as client:
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            except OSError:
                pass


# -- requests

_BASE = "http://127.0.0.1"
_HEAD = f"Host: x\r\nAuthorization: Bearer {ADMIN}\r\n"
_REQUESTS = [
    f"GET {MAPS}?limit=1 HTTP/1.1\r\n{_HEAD}Accept: application/json;as=Table\r\n\r\n",
    f"GET {MAPS}?watch=1&timeoutSeconds=1 HTTP/1.1\r\n{_HEAD}\r\n",
    f"POST {MAPS}?dryRun=All HTTP/1.1\r\n{_HEAD}Content-Length: 2\r\n\r\n{{}}",
    f"PUT {MAPS}/x?dryRun=All HTTP/1.1\r\n{_HEAD}Transfer-Encoding: chunked\r\n\r\n"
    "2\r\n{}\r\n0\r\n\r\n",
    f"GET /apis HTTP/1.1\r\n{_HEAD}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    f"DELETE {MAPS}/y HTTP/1.1\r\n{_HEAD}Impersonate-User: a\r\nExpect: 100-continue\r\n\r\n",
]


@st.composite
def damaged(draw: st.DrawFn, samples: list[bytes]) -> bytes:
    """Return a sample with bytes removed, inserted or replaced."""
    data = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "put", "set"])):
            case "cut":
                del data[at : at + draw(st.integers(1, 12))]
            case "put":
                data[at:at] = draw(st.binary(max_size=12))
            case _:
                data[at : at + 1] = draw(
                    st.sampled_from([b"\r", b"\n", b"\0", b"%", b"\xff", b":"])
                )
    return bytes(data)


requests = damaged([text.encode() for text in _REQUESTS])
_WORDS = st.sampled_from(
    ["a", "metadata.name", "x", "default", "in", "notin", "=", "==", "!=", ",", "(", ")", "!", ">",
     "<", "1", "-1", "1_0", "²", "\\", " ", "\0", "é", "\ufffd", "spec.nodeName", "/"]
)  # fmt: skip
_TEXTS = st.lists(_WORDS, max_size=8).map("".join) | st.text(max_size=12)
_NUMBERS = st.sampled_from(
    ["", "0", "1", "2", "-1", "abc", "1.5", "1_0", " 1", "²", "99999999999999999999999", "1e3"]
)
queries = st.fixed_dictionaries(
    {},
    optional={
        "labelSelector": _TEXTS,
        "fieldSelector": _TEXTS,
        "limit": _NUMBERS,
        "continue": _TEXTS | st.binary(max_size=20).map(lambda data: data.hex()),
        "resourceVersion": _NUMBERS,
        "resourceVersionMatch": st.sampled_from(["Exact", "NotOlderThan", "x", ""]),
        "sendInitialEvents": st.sampled_from(["true", "false", "x"]),
        "allowWatchBookmarks": st.sampled_from(["true", "x"]),
        "pretty": st.sampled_from(["true", "x", ""]),
        "includeObject": st.sampled_from(["None", "Object", "x"]),
        "fieldManager": _TEXTS,
        "propagationPolicy": _TEXTS,
    },
)
accepts = st.sampled_from(
    ["", "*/*", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", ";;,", "a/b",
     "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"]
)  # fmt: skip
_NAMES = st.sampled_from(
    ["metadata", "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences",
     "uid", "resourceVersion", "managedFields", "generation", "creationTimestamp", "kind",
     "apiVersion", "data", "k", "spec", "status", "containers", "ports", "tolerations", "replicas",
     "selector", "template", "image", "env", "resources", "limits", "cpu", "$patch", "$retainKeys",
     "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "a/b~c", ""]
)  # fmt: skip
_SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", "x", "c", "ConfigMap", "v1", "apps/v1", "2020-01-01T00:00:00Z", "1.5Gi", "replace",
         "delete", "1", "default"]
    )
    | st.text(max_size=6)
)  # fmt: skip
documents = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_NAMES | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
_POINTERS = st.lists(
    _NAMES | st.sampled_from(["0", "-", "1", "-1", "9" * 30, "~2"]), max_size=4
).map(lambda parts: "".join(f"/{part}" for part in parts))
_OPERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x", 1]),
        "path": _POINTERS | st.text(max_size=4) | st.integers(),
        "from": _POINTERS | st.none(),
        "value": documents,
    },
)
_ENVELOPE = (
    b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x1b"
    b'\n\x0b\n\x01y\x12\0\x1a\0\x22\0\x2a\0\x12\x09\n\x01k\x12\x04text\x1a\0"\0'
)


@st.composite
def documents_near(draw: st.DrawFn, target: dict[str, Any]) -> Any:
    """Return the target with some values replaced."""
    whole = json.loads(json.dumps(target))
    for _ in range(draw(st.integers(1, 2))):
        here: Any = whole
        while True:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(here[key], dict | list) and draw(st.booleans()):
                here = here[key]
                continue
            here[key] = draw(documents)
            break
    return whole


# -- checks


def noise_breaks_nothing(watchful: Watchful, data: bytes) -> None:
    """The server survives any bytes."""
    watchful.noise(data)
    watchful.check()


def queries_break_nothing(
    watchful: Watchful, path: str, query: dict[str, str], accept: str, method: str
) -> None:
    """The server answers any query."""
    asked = urlencode({**query, "dryRun": "All"}, errors="replace")
    watchful.send(method, f"{path}?{asked}", None, Accept=accept)
    if method == "GET":  # A watch that ends immediately.
        watchful.send("GET", f"{path}?{asked}&watch=1&timeoutSeconds=-1", None, Connection="close")
    watchful.check()


def patches_break_nothing(watchful: Watchful, path: str, media: str, patch: Any) -> None:
    """The server applies or rejects any patch."""
    query = "?dryRun=All&fieldManager=m" + ("&force=true" if media == PATCHES[-1] else "")
    body = json.dumps(patch).encode()
    watchful.send("PATCH", f"{path}/x{query}", body, Content_Type=media)
    watchful.check()


def bodies_break_nothing(
    watchful: Watchful, path: str, method: str, media: str, body: bytes
) -> None:
    """The server accepts or rejects any body."""
    name = "" if method == "POST" else "/x"
    watchful.send(method, f"{path}{name}?dryRun=All", body, Content_Type=media)
    watchful.check()


paths = st.sampled_from(list(TARGETS))
patches = (
    documents
    | st.lists(_OPERATIONS | documents, max_size=4)
    | paths.flatmap(lambda path: documents_near(TARGETS[path]))
)
media_types = st.sampled_from(
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "", "a/b", ";"]
)
bodies = (
    documents.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=60)
    | damaged(
        [
            _ENVELOPE,
            b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"y"},"data":{"a":"b"}}',
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata:\n  a: &x b\n  c: *x\n",
            b'{"gracePeriodSeconds":0,"preconditions":{"uid":"x"},"dryRun":["All"]}',
        ]
    )
)


def _longer(seconds: float, first: int) -> int:
    """Run with one seed after the other for `seconds`."""
    watchful = Watchful()
    deadline = Deadline.after(seconds, SYSTEM_CLOCK)
    rules: list[tuple[Callable[..., None], dict[str, Any]]] = [
        (noise_breaks_nothing, {"data": requests}),
        (
            queries_break_nothing,
            {
                "path": paths,
                "query": queries,
                "accept": accepts,
                "method": st.sampled_from(["GET", "DELETE"]),
            },
        ),
        (
            patches_break_nothing,
            {"path": paths, "media": st.sampled_from(PATCHES), "patch": patches},
        ),
        (
            bodies_break_nothing,
            {
                "path": paths,
                "method": st.sampled_from(["POST", "PUT", "DELETE"]),
                "media": media_types,
                "body": bodies,
            },
        ),
    ]
    number = first
    try:
        for number in count(first):
            for rule, drawn in rules:

                def run(**values: Any) -> None:
                    rule(watchful, **values)  # noqa: B023 - called before the loop goes on

                check = settings(
                    max_examples=100,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                )(seed(number)(given(**drawn)(run)))
                check()
                if deadline.expired:
                    return 0
    except AssertionError as error:
        print(f"seed {number}: {error}")
        return 1
    finally:
        watchful.end()
    return 0


if __name__ == "__main__":
    sys.exit(_longer(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))

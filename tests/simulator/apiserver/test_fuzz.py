"""A short run of the fuzzing in `fuzzing.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.examples import scaled
from tests.simulator.apiserver import fuzzing
from tests.simulator.apiserver.fuzzing import MAPS, PATCHES, Watchful

if TYPE_CHECKING:
    from collections.abc import Iterator

# The same cases each time; failures of other seeds are kept as examples.
short = settings(
    max_examples=scaled(60),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def watchful() -> Iterator[Watchful]:
    watchful = Watchful()
    try:
        yield watchful
    finally:
        watchful.end()


@short
@given(data=fuzzing.requests)
def test_server_survives_random_bytes(watchful: Watchful, data: bytes) -> None:
    fuzzing.noise_breaks_nothing(watchful, data)


@short
@given(
    path=fuzzing.paths,
    query=fuzzing.queries,
    accept=fuzzing.accepts,
    method=st.sampled_from(["GET", "DELETE"]),
)
@example(MAPS, {"resourceVersion": "²"}, "", "GET")
@example(MAPS, {"labelSelector": "a>²"}, "", "GET")
def test_server_survives_random_queries(
    watchful: Watchful, path: str, query: dict[str, str], accept: str, method: str
) -> None:
    fuzzing.queries_break_nothing(watchful, path, query, accept, method)


@short
@given(path=fuzzing.paths, media=st.sampled_from(PATCHES), patch=fuzzing.patches)
@example(MAPS, PATCHES[1], {"a\nb": 1, "\0": 1})
@example(MAPS, PATCHES[2], {"metadata": {"$setElementOrder/finalizers": 5}})
@example(MAPS, PATCHES[2], {"metadata": {"$deleteFromPrimitiveList/finalizers": 5}})
@example(MAPS, PATCHES[2], {"metadata": {"$retainKeys": 5}})
def test_server_survives_random_patches(
    watchful: Watchful, path: str, media: str, patch: Any
) -> None:
    fuzzing.patches_break_nothing(watchful, path, media, patch)


@short
@given(
    path=fuzzing.paths,
    method=st.sampled_from(["POST", "PUT", "DELETE"]),
    media=fuzzing.media_types,
    body=fuzzing.bodies,
)
@example(MAPS, "DELETE", "application/json", b'{"dryRun":5}')
@example(MAPS, "POST", "application/yaml", b"a: \xff")
@example(MAPS, "POST", "application/json", b'{"metadata":{"name":"y"},"data":{"\xff":"\xfe"}}')
def test_server_survives_random_bodies(
    watchful: Watchful, path: str, method: str, media: str, body: bytes
) -> None:
    fuzzing.bodies_break_nothing(watchful, path, method, media, body)

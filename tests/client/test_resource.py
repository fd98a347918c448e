from __future__ import annotations

import pytest

from pytest_kwait.apimachinery.selectors import normalize_label_selector
from pytest_kwait.client.resource import (
    BUILT_IN,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
    split_api_version,
)
from pytest_kwait.errors import InvalidArgument


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("a",), "/api/v1/namespaces/a/pods"),
        (PODS, ("a", "p"), "/api/v1/namespaces/a/pods/p"),
        (PODS, ("a", "p", "log"), "/api/v1/namespaces/a/pods/p/log"),
        (JOBS, ("a", "j", "status"), "/apis/batch/v1/namespaces/a/jobs/j/status"),
        (NODES, ("ignored", "n"), "/api/v1/nodes/n"),
        (NODES, (None, "n:10250", "proxy/pods"), "/api/v1/nodes/n:10250/proxy/pods"),
        (NAMESPACES, (None, "a", "finalize"), "/api/v1/namespaces/a/finalize"),
        (PODS, ("a", "b c"), "/api/v1/namespaces/a/pods/b%20c"),
    ],
)
def test_paths(resource: Resource, arguments: tuple[str | None, ...], path: str) -> None:
    assert resource.path(*arguments) == path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "p"), "namespace=None is not valid: Pod p lives in a namespace, name it"),
        (("a", None, "log"), "name=None is not valid: log is a part of one named object"),
        (
            ("", "p"),
            "namespace='' is not valid: a name that is not empty, . or .., without / and %",
        ),
        (
            ("a", ".."),
            "name='..' is not valid: a name that is not empty, . or .., without / and %",
        ),
        (
            ("a", "p", "log/"),
            "subresource='' is not valid: a name that is not empty, . or .., without / and %",
        ),
    ],
)
def test_paths_that_would_lead_elsewhere(arguments: tuple[str | None, ...], message: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        PODS.path(*arguments)
    assert str(raised.value) == message


def test_names_of_a_resource() -> None:
    assert (PODS.api_version, PODS.qualified) == ("v1", "pods")
    assert (JOBS.api_version, JOBS.qualified) == ("batch/v1", "jobs.batch")
    assert split_api_version("batch/v1") == ("batch", "v1")
    assert split_api_version("v1") == ("", "v1")


def test_built_in_names_mean_one_resource_each() -> None:
    seen = [
        name
        for resource in BUILT_IN.values()
        for name in {resource.plural, resource.singular, *resource.short_names}
    ]
    assert sorted(seen) == sorted(set(seen))


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, None),
        ("", None),
        ({}, None),
        ("a in (b,c)", "a in (b,c)"),
        ({"a": "b"}, "a=b"),
        ({"a": "", "b": None}, "a=,b"),
    ],
)
def test_selectors(selector: object, text: str | None) -> None:
    assert normalize_label_selector(selector) == text  # type: ignore[arg-type]  # parametrized


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (5, "selector=5 is not valid: a text like 'app=web' or a mapping of texts"),
        (["a=b"], "selector=['a=b'] is not valid: a text like 'app=web' or a mapping of texts"),
        ({"a": 1}, "selector={'a': 1} is not valid: a mapping of texts to texts or None"),
        ({1: "a"}, "selector={1: 'a'} is not valid: a mapping of texts to texts or None"),
    ],
)
def test_selectors_that_are_none(selector: object, message: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        normalize_label_selector(selector)  # type: ignore[arg-type]  # that is the point
    assert str(raised.value) == message

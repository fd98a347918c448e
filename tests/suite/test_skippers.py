"""Arguments of the markers that skip tests, and their reasons."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.skippers import check_skipper, skip_reason

CLUSTER = cast(
    "Any",
    SimpleNamespace(
        version="v1.36.2+k3s1",
        nodes=("a", "b"),
        provider="k3d",
        find_isolation_refusal=lambda *parts: ", ".join(parts),
    ),
)


def mark(name: str, *args: Any, **kwargs: Any) -> pytest.Mark:
    return cast("pytest.Mark", getattr(pytest.mark, f"kwait_skip_{name}")(*args, **kwargs).mark)


def reason(*marks: pytest.Mark) -> str:
    given = [(each.name, each.args, each.kwargs) for each in marks]
    return skip_reason(given, CLUSTER, cast("Any", None))


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        (mark("unless_server_version_gte", "1.36"), ""),
        (mark("unless_server_version_gte", "v1.36.2"), ""),
        (
            mark("unless_server_version_gte", "1.36.3"),
            "Not supported for server versions before 1.36.3 (found v1.36.2+k3s1)",
        ),
        (mark("unless_node_count_is_at_least", 2), ""),
        (mark("unless_node_count_is_at_least", 3), "Requires at least 3 nodes (not 2)"),
        (mark("unless_programs_isolated"), ""),
        (
            mark("unless_programs_isolated", "processes", "users"),
            "Requires isolated programs in pods: processes, users",
        ),
        (mark("unless_provider_is", "kind", "k3d"), ""),
        (mark("unless_provider_is", "kind"), "Only supported for providers kind (not k3d)"),
        (mark("if_provider_is", "kind"), ""),
        (
            mark("if_provider_is", "kind", "k3d"),
            "Not supported for providers kind, k3d (found k3d)",
        ),
    ],
)
def test_reasons(each: pytest.Mark, expected: str) -> None:
    check_skipper(each.name, each.args, each.kwargs)

    assert reason(each) == expected


def test_programs_that_are_not_isolated() -> None:
    refusal = "programs are plain processes on the machine's network and files (turned off)"
    cluster = cast("Any", SimpleNamespace(find_isolation_refusal=lambda: refusal))
    skipped: list[tuple[str, tuple[()], dict[str, str]]] = [
        ("kwait_skip_unless_programs_isolated", (), {})
    ]

    assert skip_reason(skipped, cluster, cast("Any", None)) == (
        "Requires isolated programs in pods: programs are plain processes on the machine's network "
        "and files (turned off)"
    )


def test_the_first_reason_counts() -> None:
    fits, lacks = mark("unless_provider_is", "k3d"), mark("unless_node_count_is_at_least", 9)

    assert reason(fits, lacks) == "Requires at least 9 nodes (not 2)"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (
            mark("unless_server_version_gte", "new"),
            "version='new' is not valid: use a version, for example '1.30' or 'v1.30.2'",
        ),
        (
            mark("unless_node_count_is_at_least", 0),
            "count=0 is not valid: use a number of nodes, 1 or more",
        ),
        (
            mark("unless_programs_isolated", "users", "net"),
            "parts='net' is not valid: use processes, storage, users",
        ),
        (mark("unless_provider_is"), "names=() is not valid: name one or more, as texts"),
        (
            mark("unless_server_version_gte"),
            "arguments='()' is not valid: see the usage of kwait_skip_unless_server_version_gte in "
            "`pytest --markers`",
        ),
    ],
)
def test_bad_arguments(bad: pytest.Mark, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_skipper(bad.name, bad.args, bad.kwargs)

    assert str(caught.value) == said

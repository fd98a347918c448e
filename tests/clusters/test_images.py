"""Images of a cluster: requests, ignored mappings, and the fixture's values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.clusters.images import Images, describe_ignored_images, read_fixture
from pytest_kwait.errors import InvalidArgument
from tests.clusters.fault_transport import HOLD, SERVER, FaultTransport

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.client.session import ApiSession


def images_of(transport: FaultTransport) -> Images:
    session = cast("ApiSession", SimpleNamespace(transport=transport))
    return Images(lambda: session, SERVER)


def test_a_mapping_holds_until_it_is_undone() -> None:
    transport = FaultTransport()
    images = images_of(transport)
    with images.run("shop/web:*", "python -m shop", env={"A": "1"}) as mapped:
        assert transport.asked[0] == HOLD
        method, path, body = transport.asked[1]
        assert (method, path, body["kind"], body["holder"]) == (
            "POST", "/kwait/v1/faults", "image", "h1",
        )  # fmt: skip
        assert body["image"] == mapped.mapping.to_json()
    assert transport.asked[-1][:2] == ("DELETE", "/kwait/v1/faults/f2")
    assert transport.open_holds == 1
    images.close()
    assert transport.open_holds == 0


def test_restrictions_of_the_isolation_are_asked_for() -> None:
    class Isolated(FaultTransport):
        def send(self, method: str, path: str, **_: object) -> SimpleNamespace:
            assert (method, path) == ("GET", "/kwait/v1/isolation")
            return SimpleNamespace(data=b'{"missing": ["no cgroups"]}')

    assert images_of(Isolated()).list_missing_isolation() == ["no cgroups"]


@pytest.mark.parametrize("status", [403, 404])
def test_a_cluster_that_pulls_images_ignores_mappings(status: int) -> None:
    images = images_of(FaultTransport(status))
    mapped = images.run("shop/web", ["x"])
    images.run("shop/web", ["x"])
    mapped.undo()
    assert images.ignored == ["shop/web"]


@pytest.mark.parametrize(
    ("patterns", "text"),
    [
        (["b"], "1 image mapping is not used (b)"),
        (["b", "a"], "2 image mappings are not used (a, b)"),
        (list("abcdef"), "6 image mappings are not used (a, b, c, d, e, …)"),
    ],
)
def test_ignored_mappings_are_one_line(patterns: list[str], text: str) -> None:
    assert describe_ignored_images(patterns, "https://h") == (
        f"{text}: https://h is not an embedded cluster, its nodes pull these images"
    )


def test_the_fixture_gives_commands_or_arguments(tmp_path: Path) -> None:
    first, second = read_fixture(
        {"a": ["x", "-v"], "b": {"command": "y", "env": {"E": "1"}, "workdir": tmp_path}}
    )
    assert (first.pattern, first.command) == ("a", ("x", "-v"))
    assert (second.env["E"], second.workdir) == ("1", str(tmp_path))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["a"],
            "fixture kwait_images=['a'] is not valid: it returns a mapping, as "
            '{"shop/web:*": ["python", "-m", "shop.web"]}',
        ),
        (
            {"a": {"command": "x", "environment": {}}},
            "image a='environment' (from fixture kwait_images) is not valid: the arguments are "
            "command, args, env, workdir, path, user, writable, files",
        ),
        (
            {"a": {}},
            "image a: command=None (from fixture kwait_images) is not valid: use a list of texts",
        ),
    ],
)
def test_an_invalid_value_of_the_fixture_names_it(given: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        read_fixture(given)
    assert str(error.value) == message

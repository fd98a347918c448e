"""Images of a cluster: requests, ignored mappings, and the fixture's values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.clusters.images import (
    Images,
    describe_ignored_images,
    read_image_file,
    read_image_mappings,
)
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


_SOURCE = "fixture kwait_images"


def test_the_fixture_gives_commands_or_arguments(tmp_path: Path) -> None:
    first, second, third = read_image_mappings(
        {"a": ["x", "-v"], "b": {"command": "y", "env": {"E": "1"}, "workdir": tmp_path}, "c": {}},
        _SOURCE,
    )
    assert (first.pattern, first.command) == ("a", ("x", "-v"))
    assert (second.env["E"], second.workdir) == ("1", str(tmp_path))
    assert third.command == ()


_ARGUMENTS = "command, args, env, workdir, path, user, writable, files"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["a"],
            "images=['a'] (from fixture kwait_images) is not valid: use a mapping, as "
            '{"shop/web:*": ["python", "-m", "shop.web"]}',
        ),
        (
            {"a": {"command": "x", "environ": {}}},
            "image a='environ' (from fixture kwait_images) is not valid: did you mean env? The "
            f"arguments are {_ARGUMENTS}",
        ),
        (
            {"a": {"command": ""}},
            "image a: command='' (from fixture kwait_images) is not valid: use a program and its "
            'arguments, for example ["python", "-m", "shop.web"], or [] for an image without an '
            "entrypoint",
        ),
    ],
)
def test_an_invalid_value_of_the_fixture_names_it(given: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        read_image_mappings(given, _SOURCE)
    assert str(error.value) == message


def test_a_file_has_all_that_the_fixture_may_return(tmp_path: Path) -> None:
    (tmp_path / "images.yaml").write_text(
        "shop/web:*: [python, -m, shop.web]\n"
        "shop/worker:\n"
        "  command: python -m shop.worker\n"
        "  args: [--queue, one]\n"
        "  env: {PORT: 8080, DEBUG: yes}\n"
        "  workdir: src\n"
        "  path: [bin]\n"
        "  user: 1000:2000\n"
        "  writable: [data]\n"
        "  files: {/app: src}\n"
        '"*/tools": {}\n'
    )
    web, worker, tools = read_image_file(str(tmp_path / "images.yaml"), "--images")
    assert (web.pattern, web.command) == ("shop/web:*", ("python", "-m", "shop.web"))
    assert web.workdir == str(tmp_path)
    assert (worker.command, worker.args) == (("python", "-m", "shop.worker"), ("--queue", "one"))
    assert (worker.env["PORT"], worker.env["DEBUG"]) == ("8080", "yes")
    assert worker.env["PATH"].startswith(f"{tmp_path}/bin:")
    assert (worker.workdir, worker.user) == (f"{tmp_path}/src", "1000:2000")
    assert (worker.writable, worker.files) == ((f"{tmp_path}/data",), {"/app": f"{tmp_path}/src"})
    assert (tools.pattern, tools.command) == ("*/tools", ())


_YAML = "use a YAML file with a mapping, as shop/web:*: [python, -m, shop.web]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "images='FILE' (from --images) is not valid: it cannot be read: no such file or "
            "directory"),
        ("", f"images='FILE' (from --images) is not valid: {_YAML}"),
        ("- a\n", f"images='FILE' (from --images) is not valid: {_YAML}"),
        ("a: b\n---\nc: d\n", f"images='FILE' (from --images) is not valid: {_YAML}"),
        ("a: [b\n", "images='FILE' (from --images) is not valid: it is no YAML: line 2: expected "
            "',' or ']', but got '<stream end>'"),
        ("a: {enw: {}}\n", "image a='enw' (from FILE, --images) is not valid: did you mean env? "
            f"The arguments are {_ARGUMENTS}"),
        ("a b: x\n", "image='a b' (from FILE, --images) is not valid: use the name of an image "
            "with * for any part, for example shop/web:*"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "images.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InvalidArgument) as error:
        read_image_file(str(file), "--images")
    assert str(error.value).replace(str(file), "FILE") == message

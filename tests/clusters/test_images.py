"""Images of a cluster: requests, ignored mappings, and the fixture's values."""

from __future__ import annotations

import sys
from pathlib import Path
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
from pytest_kwait.simulator.protocol.image_mapping import ImageMapping
from tests.clusters.fault_transport import HOLD, SERVER, FaultTransport

if TYPE_CHECKING:
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


_ARGUMENTS = (
    "command, image, target, build_args, args, env, workdir, path, user, writable, files, "
    "stop_signal"
)


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


_DOCKERFILE = """\
FROM python:3.13 AS web
ARG PORT=80
ENV PORT=$PORT PATH=/app/.venv/bin:/usr/local/bin:/usr/bin LOG=info
WORKDIR /app
USER 1000
STOPSIGNAL QUIT
ENTRYPOINT ["python", "-m", "shop"]
CMD ["web"]
FROM web AS tools
ENTRYPOINT []
"""


@pytest.fixture
def dockerfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a Dockerfile; `PATH` of the machine is one folder."""
    monkeypatch.setenv("PATH", "/machine/bin")
    path = tmp_path / "Dockerfile"
    path.write_text(_DOCKERFILE)
    return path


def _read_one(**given: Any) -> ImageMapping:
    (mapping,) = read_image_mappings({"a": given}, _SOURCE)
    return mapping


def test_an_image_says_what_a_mapping_need_not(dockerfile: Path) -> None:
    found = _read_one(image=dockerfile, target="web")
    python = str(Path(sys.executable).parent)
    assert found == ImageMapping(
        "a", ("python", "-m", "shop"), ("web",),
        {"PORT": "80", "LOG": "info",
         "PATH": f"{python}:/app/.venv/bin:/usr/local/bin:/usr/bin:/machine/bin"},
        "/app", "1000", stop_signal="SIGQUIT",
    )  # fmt: skip
    tools = _read_one(image=dockerfile.parent)
    assert (tools.command, tools.args, tools.workdir) == ((), (), "/app")


def test_the_arguments_of_a_mapping_replace_those_of_the_image(
    dockerfile: Path, tmp_path: Path
) -> None:
    found = _read_one(
        image=str(dockerfile), target="web", build_args={"PORT": "81"}, env={"LOG": "debug"},
        workdir=tmp_path, user="0", path=["/own"], files={"/app": tmp_path},
    )  # fmt: skip
    assert (found.env["PORT"], found.env["LOG"]) == ("81", "debug")
    assert (found.workdir, found.user) == (str(tmp_path), "0")
    # What the image has put in front, and `files` has, comes before this Python.
    python = str(Path(sys.executable).parent)
    expected = ["/own", "/app/.venv/bin", python, "/usr/local/bin", "/usr/bin", "/machine/bin"]
    assert found.env["PATH"].split(":") == expected
    assert _read_one(image=dockerfile, target="web", args=["w"]).args == ("w",)
    own = _read_one(image=dockerfile, target="web", env={"PATH": "/mine"})
    assert own.env["PATH"] == f"{python}:/mine"


@pytest.mark.parametrize("command", ["sh", ["sh"], []])
def test_a_command_drops_the_arguments_of_the_image(dockerfile: Path, command: Any) -> None:
    found = _read_one(image=dockerfile, target="web", command=command)
    assert (found.command, found.args) == (("sh",) if command else (), ())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "web"}, "image a: target='web' (from fixture kwait_images) is not valid: it "
            "needs an image"),
        ({"build_args": {"A": "1"}}, "image a: build_args={'A': '1'} (from fixture kwait_images) "
            "is not valid: it needs an image"),
        ({"image": 1}, "image a: image=1 (from fixture kwait_images) is not valid: use the path of "
            "a Dockerfile, an OCI layout or a docker archive"),
        ({"image": "Dockerfile"}, "image a: image='Dockerfile' (from fixture kwait_images) is not "
            "valid: it does not exist"),
        ({"image": "Dockerfile", "target": 1}, "image a: target=1 (from fixture kwait_images) is "
            "not valid: use the name of a stage or image"),
        ({"image": "Dockerfile", "build_args": {"A": 1}}, "image a: build_args={'A': 1} (from "
            'fixture kwait_images) is not valid: use a mapping of texts, as {"VERSION": "1.2"}'),
    ],
)  # fmt: skip
def test_an_image_that_cannot_be_read_is_named(
    given: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument) as error:
        read_image_mappings({"a": given}, _SOURCE)
    assert str(error.value) == message


def test_an_image_of_a_file_is_beside_it(dockerfile: Path, tmp_path: Path) -> None:
    (tmp_path / "images.yaml").write_text("a: {image: Dockerfile, target: web}\n")
    (found,) = read_image_file(str(tmp_path / "images.yaml"), "--images")
    assert found.command == ("python", "-m", "shop")
    assert dockerfile.exists()

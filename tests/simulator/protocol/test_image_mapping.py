"""Patterns of image mappings, what they are made of, and invalid ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.image_reference import parse_image
from pytest_kwait.simulator.protocol.image_mapping import (
    ImageMapping,
    ImageMappings,
    MappingConflictError,
    make_image_mapping,
    parse_image_mapping,
    read_image_mapping,
)

_DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("pattern", "image", "matches"),
    [
        ("shop/web:*", "shop/web:1", True),
        ("shop/web:*", "shop/web", True),
        ("shop/web:*", f"shop/web@{_DIGEST}", True),
        ("shop/web", "docker.io/shop/web:1", True),
        ("docker.io/shop/web:1", "shop/web:1", True),
        ("shop/web:1", "shop/web:2", False),
        ("shop/web:1.*", "shop/web:1.2", True),
        ("shop/web:1", f"shop/web:1@{_DIGEST}", True),
        (f"shop/web@{_DIGEST}", f"shop/web:1@{_DIGEST}", True),
        ("shop/web:*", "shop/webs:1", False),
        ("shop/*", "shop/web:1", True),
        ("*/web:1", "shop/web:1", True),
        ("*", "nginx", True),
        ("nginx", "nginx:1", True),
        ("library/nginx", "nginx:1", True),
        ("nginx", "shop/nginx:1", False),
        ("quay.io/shop/web:*", "shop/web:1", False),
        ("localhost:5000/web:*", "localhost:5000/web:2", True),
        ("localhost:5000/web", "localhost:5000/web:2", True),
    ],
)
def test_patterns_match_names_of_images(pattern: str, image: str, matches: bool) -> None:
    assert ImageMapping(pattern, ("x",)).matches(parse_image(image)) is matches


@pytest.mark.parametrize("length", [100, 3000])
def test_no_name_takes_long_to_match(length: int) -> None:
    image = parse_image("/".join(["a"] * length))
    assert not ImageMapping("*/*/*/*/*/*/*/*/*/b:*", ("x",)).matches(image)


def test_the_most_specific_pattern_applies() -> None:
    mappings = ImageMappings(
        ImageMapping(pattern, (pattern,)) for pattern in ("*", "shop/*", "shop/web:1", "shop/web")
    )
    found = [
        mappings.find(parse_image(one)) for one in ("shop/web:1", "shop/web:2", "shop/db", "a")
    ]
    assert [one.pattern for one in found if one] == ["shop/web:1", "shop/web", "shop/*", "*"]
    assert ImageMappings().find(parse_image("a")) is None


def test_equal_mappings_count_as_one_until_all_are_removed() -> None:
    mappings, one = ImageMappings(), ImageMapping("a", ("x",))
    mappings.add(one)
    mappings.add(ImageMapping("a", ("x",)))
    assert list(mappings) == [one]
    mappings.remove(one)
    assert mappings.find(parse_image("a")) == one
    mappings.remove(one)
    assert mappings.find(parse_image("a")) is None


@pytest.mark.parametrize(
    ("new", "text"),
    [
        (
            {"command": ("python", "-m", "b c")},
            "command python -m a instead of python -m 'b c'",
        ),
        ({"env": {"A": "1"}}, "env {} instead of {'A': '1'}"),
        ({"args": ("-v",)}, "args () instead of -v"),
        ({"workdir": "/srv"}, "workdir '/' instead of '/srv'"),
    ],
)
def test_a_pattern_has_one_program(new: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"pattern": "shop/web:*", "command": ("python", "-m", "a")}
    mappings = ImageMappings([ImageMapping(**given)])
    with pytest.raises(MappingConflictError) as error:
        mappings.add(ImageMapping(**{**given, **new}))
    assert str(error.value) == (
        f'the pattern "shop/web:*" is mapped already, with the {text}: map it once for all tests '
        "and workers, or undo the other mapping first"
    )


@pytest.mark.parametrize(
    ("name", "near"), [("shop/wbe:1", "shop/web:*"), ("shop/web:2", "shop/web:*"), ("nginx", "")]
)
def test_the_nearest_pattern_is_found(name: str, near: str) -> None:
    mappings = ImageMappings([ImageMapping("shop/web:*", ("x",)), ImageMapping("db:*", ("x",))])
    assert mappings.find_near_pattern(name) == near


def test_a_mapping_is_completed_from_this_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.chdir(tmp_path)
    made = make_image_mapping(
        "shop/web", ["./web", Path("x")], path=["bin"], env={"A": Path("/a")}, user=1000,
        writable=["cov", "/var/x"], files={"/app": "src"},
    )  # fmt: skip
    python = str(Path(sys.executable).parent)
    assert made == ImageMapping(
        "shop/web", ("./web", "x"), (),
        {"A": "/a", "PATH": os.pathsep.join([str(tmp_path / "bin"), python, "/usr/bin"])},
        str(tmp_path), "1000", (str(tmp_path / "cov"), "/var/x"),
        {"/app": str(tmp_path / "src")},
    )  # fmt: skip
    assert make_image_mapping("a", "x", workdir="sub").workdir == str(tmp_path / "sub")
    own = make_image_mapping("a", "x", env={"PATH": "/own"}).env["PATH"]
    assert own == os.pathsep.join([python, "/own"])


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ({"command": "/opt/py/bin/python3.12 -m shop"}, "/opt/py/bin"),
        ({"command": "./py/bin/python", "workdir": "/srv"}, "/srv/py/bin"),
        ({"command": "/opt/py/bin/gunicorn shop"}, None),
        ({"command": ".venv/bin/gunicorn shop"}, "WORK/.venv/bin"),
        ({"command": "/app/bin/gunicorn", "files": {"/app": ".venv"}}, "/app/bin"),
        ({"command": "/bin/sh -c python"}, None),
        ({"command": "python"}, None),
        ({}, None),
        ({"command": "/opt/py/bin/python", "path": ["/own"]}, "/own:/opt/py/bin"),
    ],
)
def test_python_is_that_of_the_program(
    given: dict[str, Any], first: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    found = make_image_mapping("a", **given).env["PATH"]
    before = f"{first}:".replace("WORK", str(tmp_path)) if first else ""
    assert found == f"{before}{Path(sys.executable).parent}:/usr/bin"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", ""),
        ("SIGTERM", "SIGTERM"),
        ("quit", "SIGQUIT"),
        ("SIGRTMIN+3", "SIGRTMIN+3"),
        ("RTMAX-1", "SIGRTMAX-1"),
        (9, "9"),
        ("10", "10"),
    ],
)
def test_a_stop_signal_has_a_name_or_number(given: object, found: str) -> None:
    assert make_image_mapping("a", "x", stop_signal=given).stop_signal == found


def test_an_image_may_have_no_entrypoint() -> None:
    made = make_image_mapping("a", args=["-v"])
    assert (made.command, made.args) == ((), ("-v",))
    assert read_image_mapping(made.to_json()) == made


def test_an_option_is_a_pattern_and_a_command_of_a_shell(tmp_path: Path) -> None:
    made = parse_image_mapping("shop/web:*=python -m 'shop web' a=b", folder=tmp_path)
    assert (made.pattern, made.command) == ("shop/web:*", ("python", "-m", "shop web", "a=b"))
    assert made.workdir == str(tmp_path)


def test_a_mapping_survives_its_way_to_the_server() -> None:
    made = make_image_mapping(
        "a",
        ["x"],
        args=["y"],
        env={"E": "1"},
        user="u:g",
        writable=["/w"],
        files={"/app": "/src"},
        stop_signal="rtmin+3",
    )
    assert read_image_mapping(made.to_json()) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "shop/web",
            "image='shop/web' (from --image) is not valid: use PATTERN=COMMAND, for example "
            "shop/web:*=python -m shop.web",
        ),
        (
            "=x",
            "image='=x' (from --image) is not valid: use PATTERN=COMMAND, for example "
            "shop/web:*=python -m shop.web",
        ),
        (
            "shop web=x",
            "image='shop web' (from --image) is not valid: use the name of an image with * for "
            "any part, for example shop/web:*",
        ),
        (
            "a=sh 'x",
            'image a: command="sh \'x" (from --image) is not valid: no closing quotation; quote '
            "it as for a shell",
        ),
    ],
)
def test_an_invalid_option_names_its_value_and_source(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        parse_image_mapping(text, "--image")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"command": [""]},
            "image a: command=[''] is not valid: use a program and its arguments, for example "
            '["python", "-m", "shop.web"], or [] for an image without an entrypoint',
        ),
        ({"command": [1]}, "image a: command=1 is not valid: use texts without NUL bytes"),
        ({"command": None}, "image a: command=None is not valid: use a list of texts"),
        ({"args": "x"}, "image a: args='x' is not valid: use a list of texts"),
        (
            {"env": ["A=1"]},
            'image a: env=[\'A=1\'] is not valid: use a mapping, as {"PORT": "8080"}',
        ),
        (
            {"env": {"A=": "1"}},
            "image a: env='A=' is not valid: use the name of an environment variable",
        ),
        ({"env": {"A": 1}}, "image a: env A=1 is not valid: use a text without NUL bytes"),
        (
            {"workdir": "~absent-user/x"},
            "image a='~absent-user/x' is not valid: there is no such user",
        ),
        *(
            (
                {"stop_signal": value},
                f"image a: stop_signal={value!r} is not valid: use the name or number of a "
                "signal, for example SIGQUIT or SIGRTMIN+3",
            )
            for value in ("SIGNONE", 0, "65", True, None)
        ),
        ({"workdir": 3}, "image a: workdir=3 is not valid: use the path of a folder"),
        (
            {"user": "a b"},
            "image a: user='a b' is not valid: use USER or USER:GROUP, each a name or a number, "
            "for example 1000 or web:web",
        ),
    ],
)
def test_an_invalid_argument_names_its_value(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        make_image_mapping("a", given.pop("command", "x"), **given)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"extra": 1},
            "use an object with pattern, command, args, env, workdir, user, writable, files, "
            "stop_signal",
        ),
        ({"files": {"app": "/src"}}, "image a: files='app' is not valid"),
        ({"pattern": "a b"}, "use the name of an image"),
        ({"user": 5}, "image a: user=5 is not valid: use a text"),
    ],
)
def test_the_server_refuses_an_invalid_mapping(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read_image_mapping({**ImageMapping("a", ("x",)).to_json(), **changed})

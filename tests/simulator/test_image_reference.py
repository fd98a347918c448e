"""Names of images."""

from __future__ import annotations

import pytest

from pytest_kwait.simulator.image_reference import (
    InvalidImageError,
    parse_image,
    to_canonical_name,
)

_DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("someone/app", "docker.io/someone/app:latest"),
        ("localhost/app:1", "localhost/app:1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("example.org/a/b_c/d-e:v1.0", "example.org/a/b_c/d-e:v1.0"),
        (f"app@{_DIGEST}", f"docker.io/library/app@{_DIGEST}"),
        (f"app:1@{_DIGEST}", f"docker.io/library/app:1@{_DIGEST}"),
        ("UPPER/x:1", "UPPER/x:1"),
    ],
)
def test_references_get_defaults(name: str, full: str) -> None:
    assert str(parse_image(name)) == full
    assert to_canonical_name(name) == full


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("example.invalid/x:1:2:3", "invalid reference format"),
        ("a b", "invalid reference format"),
        ("app:-bad", "invalid reference format"),
        ("app@sha256:short", "invalid reference format"),
        ("", "invalid reference format"),
        ("-x.org/app", "invalid reference format"),
        (
            "Foo:1",
            "invalid reference format: repository name (library/Foo) must be lowercase",
        ),
    ],
)
def test_invalid_references_are_rejected(name: str, why: str) -> None:
    with pytest.raises(InvalidImageError) as refused:
        parse_image(name)
    assert str(refused.value) == why
    assert to_canonical_name(name) == name


def test_image_id_and_size_are_stable() -> None:
    image = parse_image("nginx")
    assert image.image_id == parse_image("docker.io/library/nginx:latest").image_id
    assert image.image_id.startswith("docker.io/library/nginx@sha256:")
    assert parse_image(f"app@{_DIGEST}").image_id == f"docker.io/library/app@{_DIGEST}"
    assert image.size == parse_image("nginx:2").size > 4_000_000

"""Images of simulated registries."""

from __future__ import annotations

import pytest

from pytest_kwait.simulator.image_reference import parse_image
from pytest_kwait.simulator.runtimes.interpreted.container import find_start_error
from pytest_kwait.simulator.runtimes.interpreted.images import (
    find_pull_error,
    is_busybox,
    is_preloaded,
)
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("nginx", ""),
        ("registry.example.org/app:1", ""),
        (
            "example.invalid/x:1",
            'failed to pull and unpack image "example.invalid/x:1": failed to resolve reference '
            '"example.invalid/x:1": failed to do request: Head '
            '"https://example.invalid/v2/x/manifests/1": dial tcp: lookup example.invalid: '
            "no such host",
        ),
        (
            "UPPER/x:1",
            'failed to parse image reference "UPPER/x:1": invalid reference format: '
            "repository name must be lowercase",
        ),
    ],
)
def test_pull_errors_have_reasons(name: str, failure: str) -> None:
    assert find_pull_error(name, parse_image(name)) == failure


def test_busybox_is_recognized_from_any_registry() -> None:
    assert is_busybox(parse_image("registry.example.org/mirror/busybox:1"))
    assert not is_busybox(parse_image("nginx"))


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("busybox", True),
        ("registry.example.org/mirror/busybox:1", True),
        ("registry.invalid/busybox:1.36", False),
        ("registry.invalid:5000/busybox:1.36", False),
        ("nginx", False),
    ],
)
def test_preloaded_images(name: str, there: bool) -> None:
    assert is_preloaded(parse_image(name)) is there


_RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: "
)


@pytest.mark.parametrize(
    ("image", "argv", "failure"),
    [
        ("busybox", ["sleep", "1"], ""),
        ("busybox", ["/bin/sh", "-c", "x"], ""),
        ("busybox", [], ""),
        ("nginx", ["anything"], ""),
        ("busybox", ["foo"], _RUNC + 'exec: "foo": executable file not found in $PATH: unknown'),
        (
            "busybox",
            ["/opt/foo"],
            _RUNC + 'exec: "/opt/foo": stat /opt/foo: no such file or directory: unknown',
        ),
    ],
)
def test_a_missing_program_cannot_start(image: str, argv: list[str], failure: str) -> None:
    context = ContainerHarness().container.context
    assert find_start_error(parse_image(image), context, argv) == failure

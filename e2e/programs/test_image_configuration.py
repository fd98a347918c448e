"""Containers run what a Dockerfile, an OCI layout or a docker archive says of their image."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from e2e.conftest import MAPPINGS
from e2e.objects import pod
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_kwait import Cluster, Kwait

_DOCKERFILE = """\
# syntax=docker/dockerfile:1
ARG GREETING=hello
FROM python:3.13-slim AS base
ARG GREETING
ENV GREETING=$GREETING \\
    WHOM="the image"
WORKDIR /opt/kwait-greeter
RUN <<EOF
useradd -u 1000 greeter
EOF
USER 1000

FROM base AS greeter
COPY greet.sh /opt/kwait-greeter/
ENTRYPOINT ["sh", "./greet.sh"]
CMD ["cmd"]
"""
_SCRIPT = """\
echo "$GREETING $WHOM" "$@" "$(pwd)" "$(id -u)"
"""


def _write_layout(folder: Path, process: Mapping[str, Any]) -> Path:
    """Write an OCI layout as `skopeo copy` does, without layers; return its tar."""
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def add(value: object, kind: str) -> dict[str, Any]:
        data = json.dumps(value).encode()
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        media_type = f"application/vnd.oci.image.{kind}.v1+json"
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    config = add({"config": process}, "config")
    manifest = add({"schemaVersion": 2, "config": config, "layers": []}, "manifest")
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()
    with tarfile.open(folder / "image.tar", "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return folder / "image.tar"


@pytest.mark.kwait_skip_unless_programs_isolated("users")
@pytest.mark.needs(MAPPINGS)
def test_a_container_runs_what_its_dockerfile_says(
    kwait: Kwait, kwait_cluster: Cluster, tmp_path: Path
) -> None:
    """Command, arguments, environment, folder and user are overridden as on a node."""
    (tmp_path / "Dockerfile").write_text(_DOCKERFILE)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "greet.sh").write_text(_SCRIPT)
    image, folder = "kwait.test/inner/greeter", "/opt/kwait-greeter"
    variants: dict[str, tuple[dict[str, Any], str]] = {
        "as-it-is": ({}, f"hello the image cmd {folder} 1000"),
        "args": ({"args": ["a", "b"]}, f"hello the image a b {folder} 1000"),
        "command": ({"command": ["echo"]}, ""),
        "env": ({"env": [{"name": "WHOM", "value": "pod"}]}, f"hello pod cmd {folder} 1000"),
        "folder": (
            {"workingDir": "/", "command": ["sh", f"{folder}/greet.sh"]}, "hello the image / 1000"
        ),
        "user": ({"securityContext": {"runAsUser": 2000}}, f"hello the image cmd {folder} 2000"),
        "non-root": (
            {"securityContext": {"runAsNonRoot": True}}, f"hello the image cmd {folder} 1000"
        ),
    }  # fmt: skip
    files: dict[str, str | Path] = {folder: tmp_path / "src"}
    with kwait_cluster.images.run(image, image=tmp_path, target="greeter", files=files):
        for name, (fields, _) in variants.items():
            container = {"name": "c", "image": image, **fields}
            kwait.create(pod(name, container, restartPolicy="Never"))
        for name, (_, said) in variants.items():
            kwait.wait_for_pod_success(name)
            assert kwait.logs(name).strip() == said, name


@pytest.mark.needs(MAPPINGS)
@pytest.mark.parametrize(
    ("user", "text"),
    [
        ("", "container has runAsNonRoot and image will run as root"),
        ("0:0", "container has runAsNonRoot and image will run as root"),
        ("web", "container has runAsNonRoot and image has non-numeric user (web), cannot verify "
            "user is non-root"),
    ],
)  # fmt: skip
def test_a_container_that_must_not_be_root_is_held_to_its_images_user(
    kwait: Kwait, kwait_cluster: Cluster, tmp_path: Path, user: str, text: str
) -> None:
    """A wait fails early with the kubelet's message."""
    archive = _write_layout(tmp_path, {"User": user, "Cmd": ["true"]})
    # Other workers map theirs meanwhile.
    image = f"kwait.test/inner/user-{user.replace(':', '-') or 'none'}"
    container = {"name": "c", "image": image}
    with kwait_cluster.images.run(image, image=archive):
        security = {"runAsNonRoot": True}
        kwait.create(pod("p", container, restartPolicy="Never", securityContext=security))
        with pytest.raises(WaitFailed):
            kwait.wait_for_pod_success("p")
    (status,) = kwait.get("pod/p")["status"]["containerStatuses"]
    waiting = status["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert waiting["message"].startswith(f"{text} (pod: ")

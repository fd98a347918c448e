"""Images that are made of image mappings for a real node."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from pathlib import Path

import pytest

from pytest_kwait.simulator.protocol.image_mapping import make_image_mapping
from tools.controlplane.program_images import Base, Image, list_names, write_archive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a control plane needs Linux")


@pytest.fixture
def base(tmp_path: Path) -> Base:
    """A base layer that has nothing but this Python."""
    archive = tmp_path / "digest.tar"
    archive.write_bytes(b"layer")
    return Base(archive, [os.path.normpath(sys.executable)])


def read(layer: bytes) -> dict[str, bytes]:
    """Return the contents of a layer's files, by path."""
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        files = {one.name: tar.extractfile(one) for one in tar if one.isreg()}
        return {f"/{name}": file.read() for name, file in files.items() if file}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("kwait.test/shop/web:*", ["kwait.test/shop/web:1", "kwait.test/shop/web:latest"]),
        ("shop/web", ["docker.io/shop/web:1", "docker.io/shop/web:latest"]),
        ("web:2", ["docker.io/library/web:2"]),
        ("localhost:5000/web:2", ["localhost:5000/web:2"]),
    ],
)
def test_names_of_a_pattern(pattern: str, names: list[str]) -> None:
    assert list_names(pattern) == names


@pytest.mark.parametrize("pattern", ["shop/*", "shop/web:v*", "shop/web@sha256:*"])
def test_pattern_without_a_name_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="a node needs the name of an image") as refused:
        list_names(pattern)
    assert str(refused.value) == (f'a node needs the name of an image, not the pattern "{pattern}"')


def test_image_has_what_its_mapping_names(tmp_path: Path, base: Base) -> None:
    source, data = tmp_path / "source", tmp_path / "data"
    (source / "shop").mkdir(parents=True)
    (source / "shop" / "web.py").write_text("print()")
    (source / ".git").mkdir()
    (source / ".git" / "HEAD").write_text("main")
    data.write_text("goods")
    (tmp_path / "other").write_text("unnamed")
    mapping = make_image_mapping(
        "web:1", [sys.executable, "-m", "shop.web", str(data)], workdir="/srv", args=["8080"],
        env={"PYTHONPATH": source, "MODE": "fast"}, user="1000",
    )  # fmt: skip
    image = Image("docker.io/library/web:1", mapping, base)
    assert read(image.layer) == {f"{source}/shop/web.py": b"print()", str(data): b"goods"}
    config = json.loads(image.config)
    assert config["config"] == {
        "Entrypoint": [sys.executable, "-m", "shop.web", str(data)],
        "Cmd": ["8080"],
        "Env": [f"PYTHONPATH={source}", "MODE=fast", f"PATH={mapping.env['PATH']}"],
        "WorkingDir": "/srv",
        "User": "1000",
    }
    assert config["rootfs"]["diff_ids"] == ["sha256:digest", f"sha256:{image.layer_digest}"]


def test_links_lead_to_their_targets(tmp_path: Path, base: Base) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "program").write_text("#!/bin/sh\n")
    (tmp_path / "link").symlink_to("real")
    mapping = make_image_mapping("web:1", [tmp_path / "link" / "program"], workdir="/")
    image = Image("docker.io/library/web:1", mapping, base)
    with tarfile.open(fileobj=io.BytesIO(image.layer)) as tar:
        assert tar.getmember(f"{tmp_path}/link".lstrip("/")).linkname == "real"
    assert read(image.layer) == {f"{tmp_path}/real/program": b"#!/bin/sh\n"}


def test_files_stand_at_their_targets(tmp_path: Path, base: Base) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "greeting").write_text("hello")
    mapping = make_image_mapping("a:1", "/bin/sh", workdir="/", files={"/etc/shop": tmp_path})
    layer = Image("a:1", mapping, base).layer
    assert read(layer)["/etc/shop/conf/greeting"] == b"hello"


def test_program_brings_its_libraries(base: Base) -> None:
    layer = Image("a:1", make_image_mapping("a:1", ["/bin/ls"], workdir="/"), base).layer
    found = {Path(name).name.partition(".")[0] for name in read(layer)}
    assert {"ls", "libc"} <= found


def test_archive_shares_layers(tmp_path: Path, base: Base) -> None:
    mapping = make_image_mapping("web", ["/nowhere"], workdir="/")
    made = [Image(name, mapping, base) for name in list_names("web")]
    with (tmp_path / "archive.tar").open("wb") as file:
        write_archive(file, made, base)
    with tarfile.open(tmp_path / "archive.tar") as tar:
        assert len(tar.getnames()) == len(set(tar.getnames())) == 4
        listed = tar.extractfile("manifest.json")
        assert listed is not None
        tags = [one["RepoTags"] for one in json.load(listed)]
    assert tags == [["docker.io/library/web:1"], ["docker.io/library/web:latest"]]

"""OCI layouts and docker archives: images, names, platforms, and what is damaged."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clusters.image_config.config import ImageConfig, ImageConfigError
from pytest_kwait.clusters.image_config.source import read_image_config
from tests.clusters.image_config.layouts import (
    INDEX_TYPE,
    MANIFEST_TYPE,
    NAME,
    WEB,
    Layout,
    make_saved,
    write_tar,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_FOUND = ImageConfig(
    ("python", "-m"), ("shop.web",), {"PATH": "/usr/bin", "A": "b=c", "EMPTY": ""}, "/app",
    "1000:1000", "SIGQUIT",
)  # fmt: skip


def read(path: Path, target: str = "") -> ImageConfig:
    return read_image_config(path, target, {})


def _one() -> Layout:
    layout = Layout()
    return layout.set_index(layout.add_image(WEB))


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: _one().write_folder(folder / "layout"),
        lambda folder: _one().write_tar(folder / "image"),
        lambda folder: _one().write_tar(folder / "image.tar", prefix=""),
        lambda folder: _one().write_tar(folder / "image.tgz", "w:gz"),
        lambda folder: _one().write_tar(folder / "image", "w:xz"),
        lambda folder: write_tar(folder / "saved.tar", make_saved(("shop/web:1", WEB))),
    ],
)
def test_an_image_is_read_from_each_form(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert read(path) == _FOUND
    assert sorted(tmp_path.rglob("*")) == before


def test_an_image_may_say_nothing(tmp_path: Path) -> None:
    layout = Layout()
    layout.set_index(layout.add_image(None)).write_folder(tmp_path)
    assert read(tmp_path) == ImageConfig()
    layout.set_index(layout.add_image({"Entrypoint": [""], "Env": None, "WorkingDir": "app"}))
    layout.write_folder(tmp_path)
    assert read(tmp_path) == ImageConfig(workdir="/app")


def _named(name: str) -> dict[str, Any]:
    return {"annotations": {NAME: name}}


def _several() -> Layout:
    layout = Layout()
    images = [layout.add_image({"User": each}, **_named(f"shop/{each}:1")) for each in "ab"]
    return layout.set_index(*images)


@pytest.mark.parametrize(("target", "user"), [("shop/a:1", "a"), ("b:1", "b"), ("shop/b:1", "b")])
def test_one_of_several_images_is_named(target: str, user: str, tmp_path: Path) -> None:
    assert read(_several().write_tar(tmp_path / "a.tar"), target).user == user
    saved = make_saved(("shop/a:1", {"User": "a"}), ("shop/b:1", {"User": "b"}))
    assert read(write_tar(tmp_path / "b.tar", saved), target).user == user


def test_the_image_of_this_machines_platform_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    layout = Layout()
    images = [
        layout.add_image({"User": each}, platform={"os": "linux", "architecture": each})
        for each in ("amd64", "arm64")
    ]
    proof = layout.add_image({"User": "no"}, annotations={"vnd.docker.reference.type": "x"})
    index = {"schemaVersion": 2, "manifests": [proof, *images]}
    layout.set_index(layout.add_blob(index, INDEX_TYPE)).write_folder(tmp_path)
    assert read(tmp_path).user == "arm64"
    layout.set_index(*images).write_folder(tmp_path)
    assert read(tmp_path).user == "arm64"


def _change(name: str, data: bytes | None) -> Callable[[Path], Path]:
    """Return a writer of a layout with a changed or missing file; `name` may be its start."""

    def write(folder: Path) -> Path:
        layout = _one()
        for path in [path for path in layout.files if path.startswith(name)]:
            if data is None:
                del layout.files[path]
            else:
                layout.files[path] = data
        return layout.write_folder(folder)

    return write


def _index(*manifests: Any) -> Callable[[Path], Path]:
    return lambda folder: Layout().set_index(*manifests).write_folder(folder)


def _write_chart(folder: Path) -> Path:
    layout = Layout()
    kind = "application/vnd.cncf.helm.config.v1+json"
    return layout.set_index(layout.add_image({}, kind)).write_folder(folder)


def _write_cut_tar(folder: Path) -> Path:
    path = _one().write_tar(folder / "image.tar.gz", "w:gz")
    path.write_bytes(path.read_bytes()[:-40])
    return path


def _write(data: bytes, name: str = "image.tar") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    return write


_DIGEST = "sha256:" + "0" * 64
_NONE = "it is no OCI layout (oci-layout, index.json) and no docker archive (manifest.json)"
_DAMAGED = "it is no tar, or a damaged one"
_EMPTY_TAR = bytes(10240)


@pytest.mark.parametrize(
    ("write", "target", "message"),
    [
        (_change("index.json", None), "", _NONE),
        (_change("index.json", b"{"), "", "index.json is invalid: Input data was truncated"),
        (_change("index.json", b"[]"), "", "index.json is invalid: Expected `object`, got `array`"),
        (_change("oci-layout", b'{"imageLayoutVersion": "2"}'), "",
            "oci-layout has the version '2': use a layout of 1.0.0"),
        (_index({"digest": _DIGEST, "size": 1}), "", f"it has no file blobs/sha256/{'0' * 64}"),
        (_index({"digest": "../x", "size": 1}), "",
            "'../x' is no digest, as sha256: and 64 digits"),
        (_index(), "", "it has no image"),
        (lambda folder: _several().write_folder(folder), "",
            "it has several images, name one by target: shop/a:1, shop/b:1"),
        (lambda folder: _several().write_folder(folder), "shop/c",
            "it has no image 'shop/c': the images are shop/a:1, shop/b:1"),
        (_write_chart, "", "it is no image: its configuration is of the type "
            "'application/vnd.cncf.helm.config.v1+json'"),
        (_write(b"\x1f\x8bxx", "image"), "", _DAMAGED),
        (_write(b""), "", _DAMAGED),
        (_write(_EMPTY_TAR), "", _NONE),
        (_write(b"text"), "", _DAMAGED),
        (_write_cut_tar, "", _DAMAGED),
        (lambda folder: write_tar(folder / "a.tar", {"manifest.json": b"[]"}), "",
            "it has no image"),
        (lambda folder: write_tar(folder / "a.tar", {"manifest.json": b'[{"Config": "x"}]'}), "",
            "it has no file x"),
    ],
)  # fmt: skip
def test_what_is_damaged_or_missing_is_named(
    write: Callable[[Path], Path], target: str, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path)
    with pytest.raises(ImageConfigError) as error:
        read(path, target)
    assert str(error.value) == message


@pytest.mark.parametrize("kind", ["content", "size"])
def test_a_digest_that_does_not_fit_is_named(kind: str, tmp_path: Path) -> None:
    layout = _one()
    (descriptor,) = json.loads(layout.files["index.json"])["manifests"]
    digest = descriptor["digest"]
    name = f"blobs/{digest.replace(':', '/')}"
    if kind == "content":
        layout.files[name] += b" "
        message = f"it is damaged: the blob {digest} has the digest sha256:"
    else:
        layout.set_index({**descriptor, "size": 7})
        size = len(layout.files[name])
        message = f"it is damaged: {digest} has {size} bytes instead of 7"
    layout.write_folder(tmp_path)
    with pytest.raises(ImageConfigError) as error:
        read(tmp_path)
    assert str(error.value).startswith(message)


def test_a_saved_configuration_has_its_digest_as_name(tmp_path: Path) -> None:
    files = make_saved(("shop/web:1", WEB))
    name = next(each for each in files if each != "manifest.json")
    path = write_tar(tmp_path / "a.tar", {**files, name: b"{}"})
    with pytest.raises(ImageConfigError, match=r"^it is damaged: the blob sha256:\w+ has the"):
        read(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", {"manifest.json": b" " * ((8 << 20) + 1)})
    with pytest.raises(ImageConfigError) as error:
        read(path)
    assert str(error.value) == (
        "manifest.json has 8388609 bytes: no JSON of an image has over 8388608"
    )


def test_indexes_within_each_other_end(tmp_path: Path) -> None:
    layout = Layout()
    descriptor = layout.add_image(WEB)
    for _ in range(5):
        index = {"schemaVersion": 2, "manifests": [descriptor]}
        descriptor = layout.add_blob(index, MANIFEST_TYPE)
    path = layout.set_index(descriptor).write_folder(tmp_path)
    with pytest.raises(ImageConfigError, match="more than 4 indexes"):
        read(path)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (None, b"", "the folder has none of Dockerfile, Containerfile, oci-layout"),
        ("Dockerfile", b"\xff\xfe", "it is no Dockerfile: its text is no UTF-8"),
        ("Dockerfile", b"#" * ((1 << 20) + 1), "it is no Dockerfile: it has over 1048576 bytes"),
    ],
)
def test_a_folder_has_a_dockerfile(
    name: str | None, data: bytes, message: str, tmp_path: Path
) -> None:
    if name is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ImageConfigError) as error:
        read(tmp_path)
    assert str(error.value) == message


def test_a_containerfile_of_a_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text("FROM scratch\nUSER 7\n")
    assert read(tmp_path).user == "7"
    with pytest.raises(ImageConfigError, match=r"^it does not exist$"):
        read(tmp_path / "absent")


def test_arguments_of_a_build_need_a_dockerfile(tmp_path: Path) -> None:
    path = _one().write_folder(tmp_path)
    with pytest.raises(ImageConfigError) as error:
        read_image_config(path, "", {"A": "1"})
    assert str(error.value) == "build_args are those of a Dockerfile, and it is built already"

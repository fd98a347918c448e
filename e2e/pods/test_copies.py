"""Copies of files and folders to and from containers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from e2e.conftest import IMAGES
from e2e.objects import config_map, container, pod
from e2e.raising import raises
from pytest_kwait import KwaitError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait

CONTENTS = bytes(range(256)) * 8192
"""Two MiB: many messages of the connection."""


def make_tree(folder: Path) -> Path:
    tree = folder / "tree"
    (tree / "empty").mkdir(parents=True)
    (tree / "deep").mkdir()
    (tree / "deep" / "contents").write_bytes(CONTENTS)
    (tree / "run.sh").write_text("echo ran\n")
    (tree / "run.sh").chmod(0o754)
    (tree / "deep" / "link").symlink_to("../run.sh")
    return tree


def test_a_folder_there_and_back(kwait: Kwait, tmp_path: Path) -> None:
    kwait.create_and_wait(pod("web"))

    there = kwait.copy_to("web", make_tree(tmp_path), "/tmp/new/copy")

    assert there == "/tmp/new/copy"
    assert kwait.exec("web", "sh", "/tmp/new/copy/deep/link").stdout == "ran\n"
    modes = kwait.exec("web", "stat", "-c", "%a", "/tmp/new/copy/run.sh", "/tmp/new/copy/empty")
    assert modes.stdout.split() == ["754", "755"]
    back = kwait.copy_from("pod/web", there, tmp_path / "back")
    assert (back / "deep" / "contents").read_bytes() == CONTENTS
    assert (back / "empty").is_dir()
    assert (back / "run.sh").stat().st_mode & 0o777 == 0o754
    assert (back / "deep" / "link").read_text() == "echo ran\n"


def test_files_of_a_chosen_container(kwait: Kwait, tmp_path: Path) -> None:
    kwait.create_and_wait(pod("web", container("server"), container("proxy")))
    (tmp_path / "conf").write_text("listen 80")

    there = kwait.copy_to(kwait.get("pod/web"), tmp_path / "conf", "/tmp", container="proxy")

    assert there == "/tmp/conf"
    copy = kwait.copy_from("web", there, tmp_path / "copies" / "conf", container="proxy")
    assert copy.read_text() == "listen 80"
    with raises(KwaitError, "/tmp/conf of container server of pod .*No such file or directory"):
        kwait.copy_from("web", there, tmp_path, container="server")


def test_a_key_of_a_config_map(kwait: Kwait, tmp_path: Path) -> None:
    """It is a link in the volume."""
    mounts = [{"name": "v", "mountPath": "/conf"}]
    volumes = [{"name": "v", "configMap": {"name": "c"}}]
    kwait.create(config_map("c", key="value"))
    kwait.create_and_wait(pod("web", container(volumeMounts=mounts), volumes=volumes))

    assert kwait.copy_from("web", "/conf/key", tmp_path).read_text() == "value"
    with raises(KwaitError, "Read-only file system"):
        kwait.copy_to("web", tmp_path / "key", "/conf/other")


def test_a_failed_tar_leaves_much_of_its_input(kwait: Kwait, tmp_path: Path) -> None:
    """Without a reader of the rest, a real kubelet may never end the command (1.36)."""
    kwait.create_and_wait(pod("web"))
    (tmp_path / "big").write_bytes(CONTENTS * 4)

    for _ in range(5):
        with raises(KwaitError, "could not be copied: tar ended with exit code 1: tar: "):
            kwait.copy_to("web", tmp_path / "big", "/etc/passwd/big", timeout=20)


def test_links_out_of_the_folder(kwait: Kwait, tmp_path: Path) -> None:
    kwait.create_and_wait(pod("web"))
    kwait.exec("web", "sh", "-c", "mkdir /tmp/d; ln -s /etc/passwd /tmp/d/out")

    with raises(KwaitError, "/tmp/d/out is a link to /etc/passwd; only relative links within it"):
        kwait.copy_from("web", "/tmp/d", tmp_path)
    assert list(tmp_path.iterdir()) == []


async def copied(kwait: Kwait, source: Path, folder: Path) -> Path:
    there = await kwait.aio.copy_to("web", source, "/tmp/")
    return await kwait.aio.copy_from("web", there, folder)


def test_copies_are_awaited(kwait: Kwait, tmp_path: Path) -> None:
    kwait.create_and_wait(pod("web"))
    (tmp_path / "a").write_text("a")

    assert asyncio.run(copied(kwait, tmp_path / "a", tmp_path / "b")).read_text() == "a"


@pytest.mark.needs(IMAGES)
def test_a_container_without_tar(kwait: Kwait, tmp_path: Path) -> None:
    """Interpreted containers have it on any PATH."""
    nowhere = {"name": "PATH", "value": "/nowhere"}
    kwait.create_and_wait(pod("web", container(command=["/bin/sleep", "300"], env=[nowhere])))

    with raises(KwaitError, "container main has no tar, which copies need; use an image that has"):
        kwait.copy_from("web", "/etc/hostname", tmp_path)

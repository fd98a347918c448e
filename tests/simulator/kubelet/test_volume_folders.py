"""Volumes of pods as folders: the atomic writer, modes, owners, tokens, mounts."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.busybox.os.files import File, FileSystemError
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.kubelet import volume_folders
from pytest_kwait.simulator.kubelet.cri import ContainerConfigError, EmptyDir, Mount
from pytest_kwait.simulator.kubelet.volume_folders import (
    PodVolumeFolders,
    ProjectedFile,
    write_atomically,
)
from pytest_kwait.simulator.kubelet.volumes import (
    PodVolumes,
    get_persistent_folders,
    list_image_files,
)
from pytest_kwait.simulator.protocol.image_mapping import make_image_mapping
from pytest_kwait.simulator.runtimes.interpreted.container import make_container_files
from pytest_kwait.simulator.runtimes.table import ClusterRuntimes
from tests.objects import pod
from tests.simulator.manual_clock import START, ManualClock

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj

_PLACES = {"spec.nodeName": "n", "status.podIP": "10.244.1.2"}


def _file(data: bytes, mode: int = 0o644) -> ProjectedFile:
    return ProjectedFile(data, mode)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _mounting_pod(*volumes: Obj, **spec: Any) -> Obj:
    metadata = {"namespace": "default", "uid": "u", "labels": {"a": "b"}}
    spec = {"serviceAccountName": "default", "volumes": list(volumes), **spec}
    return pod(container={"name": "c", "image": "shop/web"}, metadata=metadata, **spec)


def _folders(api: SimulatedCluster, folder: Path) -> PodVolumeFolders:
    kept = get_persistent_folders(api)
    kept.move_to_disk(folder / "kept")
    return PodVolumeFolders(api, folder / "pod", PodVolumes(api, "n", ClusterRuntimes(api)))


def _map_image(api: SimulatedCluster, folder: Path) -> Obj:
    """Map an image of two files and a folder; return a volume of it."""
    (folder / "inner").mkdir(parents=True)
    (folder / "model").write_bytes(b"weights")
    (folder / "inner" / "words").write_bytes(b"a b")
    files = {"/model": folder / "model", "/etc/words": folder / "inner"}
    api.images.add(make_image_mapping("shop/model:*", ["/bin/true"], files=files))
    return {"name": "v", "image": {"reference": "shop/model:1", "pullPolicy": "Always"}}


def test_a_volume_of_a_mapped_image_has_its_files(api: SimulatedCluster, tmp_path: Path) -> None:
    volume = _map_image(api, tmp_path / "source")
    folders = _folders(api, tmp_path)
    pod = _mounting_pod(volume)
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    (mount,) = folders.list_mounts(pod, container, {})
    assert mount.host_path is not None
    copied = Path(mount.host_path)
    assert (copied / "model").read_bytes() == b"weights"
    assert (copied / "etc" / "words" / "words").read_bytes() == b"a b"
    assert mount.readonly
    container["volumeMounts"] = [{"name": "v", "mountPath": "/m", "subPath": "model"}]
    (mount,) = folders.list_mounts(pod, container, {})
    assert (mount.host_path, mount.readonly) == (str(copied / "model"), True)
    other = {"name": "v", "image": {"reference": "shop/other:1"}}
    assert list_image_files(ClusterRuntimes(api), other) == {}


def test_a_simulated_container_cannot_change_an_image(
    api: SimulatedCluster, tmp_path: Path
) -> None:
    volume = _map_image(api, tmp_path / "source")
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    mounts = PodVolumes(api, "n", ClusterRuntimes(api)).mounts(_mounting_pod(volume), container, {})
    files = make_container_files(lambda: 0.0, "h", Network(), {}, mounts, [])
    assert files.read("/v/model") == b"weights"
    assert files.read("/v/etc/words/words") == b"a b"
    for path in ("/v/model", "/v/etc/words/words", "/v/new", "/v/etc/words/new"):
        with pytest.raises(FileSystemError, match="Read-only file system"):
            files.write(path, b"changed")
    found = files.get_node("/v/model")
    assert isinstance(found, File)
    with pytest.raises(FileSystemError, match="Read-only file system"):
        found.write_at(0, b"x")
    assert (tmp_path / "source" / "model").read_bytes() == b"weights"


def test_files_are_links_into_a_timestamped_folder(tmp_path: Path) -> None:
    files = {"a": _file(b"1"), "deep/b": _file(b"2", 0o400)}
    assert write_atomically(tmp_path, files, START)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["..2026_01_01_00_00_00.000000", "..data", "a", "deep"]
    assert str((tmp_path / "..data").readlink()) == names[0]
    assert str((tmp_path / "a").readlink()) == "..data/a"
    assert (tmp_path / "deep" / "b").read_bytes() == b"2"
    assert [_mode(tmp_path / name) for name in ("a", "deep/b")] == [0o644, 0o400]


def test_an_update_replaces_all_files_at_once(tmp_path: Path) -> None:
    write_atomically(tmp_path, {"a": _file(b"1"), "b": _file(b"2")}, START)
    assert not write_atomically(tmp_path, {"a": _file(b"1"), "b": _file(b"2")}, START + 1)
    assert write_atomically(tmp_path, {"a": _file(b"3"), "c": _file(b"4")}, START + 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "..2026_01_01_00_00_02.000000", "..data", "a", "c",
    ]  # fmt: skip
    assert (tmp_path / "a").read_bytes() == b"3"


def test_two_updates_of_one_moment_have_different_folders(tmp_path: Path) -> None:
    write_atomically(tmp_path, {"a": _file(b"1")}, START)
    write_atomically(tmp_path, {"a": _file(b"2")}, START)
    assert str((tmp_path / "..data").readlink()) == "..2026_01_01_00_00_00.000000-1"
    assert (tmp_path / "a").read_bytes() == b"2"


def test_sources_have_their_items_and_modes(api: SimulatedCluster, tmp_path: Path) -> None:
    binary = base64.b64encode(b"\xff\x00").decode()
    api.create(
        "configmaps",
        {"metadata": {"name": "a"}, "data": {"k": "1", "l": "2"}, "binaryData": {"bin": binary}},
        "default",
    )
    api.create("secrets", {"metadata": {"name": "s"}, "data": {"p": binary}}, "default")
    field = {"fieldRef": {"fieldPath": "metadata.labels"}}
    pod = _mounting_pod(
        {"name": "map", "configMap": {"name": "a", "defaultMode": 0o600}},
        {
            "name": "items",
            "configMap": {
                "name": "a", "defaultMode": 0o644,
                "items": [{"key": "k", "path": "x/y", "mode": 0o400}, {"key": "l", "path": "l"}],
            },
        },
        {"name": "none", "configMap": {"name": "missing", "optional": True}},
        {
            "name": "all",
            "projected": {
                "defaultMode": 0o440,
                "sources": [
                    {"secret": {"name": "s"}},
                    {"downwardAPI": {"items": [{"path": "labels", **field, "mode": 0o444}]}},
                ],
            },
        },
    )  # fmt: skip
    folders = _folders(api, tmp_path)
    assert folders.write(pod, _PLACES)
    base = tmp_path / "pod" / "volumes"
    assert (base / "map" / "bin").read_bytes() == b"\xff\x00"
    assert _mode(base / "map" / "k") == 0o600
    assert [_mode(base / name) for name in ("map", "all")] == [0o777, 0o1777]
    assert sorted(path.name for path in (base / "items").iterdir())[2:] == ["l", "x"]
    assert _mode(base / "items" / "x" / "y") == 0o400
    assert [path.name for path in (base / "none").iterdir() if path.name[0] != "."] == []
    assert (base / "all" / "p").read_bytes() == b"\xff\x00"
    assert (base / "all" / "labels").read_text() == 'a="b"'
    assert (_mode(base / "all" / "p"), _mode(base / "all" / "labels")) == (0o440, 0o444)


def test_unchanged_files_are_not_read_again(
    api: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "1"}}, "default")
    pod = _mounting_pod({"name": "map", "configMap": {"name": "a"}})
    folders = _folders(api, tmp_path)
    assert folders.write(pod, _PLACES)
    monkeypatch.delattr(volume_folders, "write_atomically")
    assert not folders.write(pod, _PLACES)


def test_a_changed_config_map_changes_its_files(api: SimulatedCluster, tmp_path: Path) -> None:
    api.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "1"}}, "default")
    pod = _mounting_pod({"name": "map", "configMap": {"name": "a"}})
    folders = _folders(api, tmp_path)
    folders.write(pod, _PLACES)
    assert not folders.write(pod, _PLACES)
    api.modify("configmaps", "a", "default", lambda one: one.update(data={"k": "2"}))
    assert folders.write(pod, _PLACES)
    assert (tmp_path / "pod" / "volumes" / "map" / "k").read_text() == "2"
    api.delete("configmaps", "a", "default")
    assert not folders.write(pod, _PLACES)
    assert (tmp_path / "pod" / "volumes" / "map" / "k").read_text() == "2"
    folders.close()
    assert not (tmp_path / "pod").exists()


def test_a_token_is_renewed_after_most_of_its_life(api: SimulatedCluster, tmp_path: Path) -> None:
    clock = api.clock
    assert isinstance(clock, ManualClock)
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 1000}}
    created = api.create(
        "pods", {"metadata": {"name": "p"}, "spec": _mounting_pod()["spec"]}, "default"
    )
    pod = {
        **_mounting_pod({"name": "t", "projected": {"sources": [source]}}),
        "metadata": created["metadata"],
    }
    folders = _folders(api, tmp_path)
    folders.write(pod, _PLACES)
    path = tmp_path / "pod" / "volumes" / "t" / "token"
    first = path.read_text()
    assert first.count(".") == 2
    clock.leap(799)
    assert not folders.write(pod, _PLACES)
    clock.leap(2)
    assert folders.write(pod, _PLACES)
    assert path.read_text() != first


def test_a_group_of_files_may_read_them(api: SimulatedCluster, tmp_path: Path) -> None:
    api.create("secrets", {"metadata": {"name": "s"}, "stringData": {"p": "x"}}, "default")
    pod = _mounting_pod(
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "shared", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        securityContext={"fsGroup": 0},
    )
    folders = _folders(api, tmp_path)
    folders.write(pod, _PLACES)
    folder = tmp_path / "pod" / "volumes" / "s"
    assert (_mode(folder), _mode(folder / "p")) == (0o3777, 0o440)
    assert (folder / "..data").stat().st_mode & stat.S_ISGID
    assert folders.list_empty_dirs(pod) == (
        EmptyDir("shared", None, 0), EmptyDir("memory", 1 << 20, 0),
    )  # fmt: skip


def _mounts(folders: PodVolumeFolders, pod: Obj, **mount: Any) -> list[Mount]:
    container = {"name": "c", "volumeMounts": [{"mountPath": "/m", **mount}]}
    return folders.list_mounts(pod, container, {"WHO": "me"})


def test_mounts_lead_to_the_folders(api: SimulatedCluster, tmp_path: Path) -> None:
    api.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "1"}}, "default")
    pod = _mounting_pod(
        {"name": "map", "configMap": {"name": "a"}},
        {"name": "empty", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": "/var/data"}},
        {"name": "file", "hostPath": {"path": "/var/file", "type": "FileOrCreate"}},
    )
    folders = _folders(api, tmp_path)
    folders.write(pod, _PLACES)
    base, node = tmp_path / "pod" / "volumes", tmp_path / "kept" / "nodes" / "n"
    assert _mounts(folders, pod, name="map") == [Mount("/m", str(base / "map"), readonly=True)]
    assert _mounts(folders, pod, name="map", subPath="k") == [
        Mount("/m", str((base / "map" / "k").resolve()), readonly=True)
    ]
    assert _mounts(folders, pod, name="empty", subPathExpr="x/$(WHO)", readOnly=True) == [
        Mount("/m", empty_dir="empty", sub_path="x/me", readonly=True)
    ]
    assert _mounts(folders, pod, name="host") == [Mount("/m", str(node / "var" / "data"))]
    assert _mounts(folders, pod, name="host", subPath="new") == [
        Mount("/m", str(node / "var" / "data" / "new"))
    ]
    assert (node / "var" / "data" / "new").is_dir()
    _mounts(folders, pod, name="file")
    assert (node / "var" / "file").is_file()


def test_a_claims_folder_is_that_of_its_volume(api: SimulatedCluster, tmp_path: Path) -> None:
    volume = {
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d", "volumeHandle": "h"},
        },
    }  # fmt: skip
    uid = api.create("persistentvolumes", volume)["metadata"]["uid"]
    claim = {
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeName": "v",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip
    api.create("persistentvolumeclaims", claim, "default")
    pod = _mounting_pod({"name": "d", "persistentVolumeClaim": {"claimName": "c"}})
    first = _mounts(_folders(api, tmp_path), pod, name="d")
    assert first == [Mount("/m", str(tmp_path / "kept" / "volumes" / uid))]
    assert _mode(Path(str(first[0].host_path))) == 0o777
    (tmp_path / "kept" / "volumes" / uid / "data").touch()
    api.delete("persistentvolumes", "v")
    api.modify("persistentvolumes", "v", "", lambda one: one["metadata"].pop("finalizers"))
    assert not (tmp_path / "kept" / "volumes" / uid).exists()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("up", 'failed to prepare subPath for volumeMount "host" of container "c"'),
        (
            "file/x",
            'failed to create subPath directory for volumeMount "host" of container "c"',
        ),
    ],
)
def test_a_sub_path_stays_in_its_volume(
    api: SimulatedCluster, tmp_path: Path, part: str, message: str
) -> None:
    pod = _mounting_pod({"name": "host", "hostPath": {"path": "/data"}})
    folders = _folders(api, tmp_path)
    (mount,) = _mounts(folders, pod, name="host")
    folder = Path(str(mount.host_path))
    (folder / "up").symlink_to("/etc")
    (folder / "file").touch()
    with pytest.raises(ContainerConfigError) as error:
        _mounts(folders, pod, name="host", subPath=part)
    assert str(error.value) == message

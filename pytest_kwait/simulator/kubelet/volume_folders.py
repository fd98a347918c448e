"""Volumes of a pod as folders of the machine, which its programs see at their mount paths.

API-backed volumes are written as the kubelet's atomic writer does: a timestamped folder, the link
`..data` to it, and a link for each first part of a path. An update replaces `..data` alone.

Source: pkg/volume/util/atomic_writer.go; pkg/volume/configmap/configmap.go, secret/secret.go,
projected/projected.go, downwardapi/downwardapi.go; pkg/volume/volume_linux.go,
`SetVolumeOwnership`.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.busybox.os.files import Directory
from pytest_kwait.simulator.busybox.os.host_files import HostEntries, HostFile
from pytest_kwait.simulator.kubelet.cri import ContainerConfigError, EmptyDir, Mount
from pytest_kwait.simulator.kubelet.environment import get_sub_path
from pytest_kwait.simulator.kubelet.volumes import (
    find_source_error,
    get_memory_size,
    issue_token,
    list_image_files,
    list_sources,
    read_contents,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet.volumes import PodVolumes
    from pytest_kwait.simulator.objects import Obj

_API_KINDS = ("configMap", "secret", "projected", "downwardAPI")
_DATA, _NEW_DATA = "..data", "..data_tmp"
_DEFAULT_MODE = 0o644
# Config maps are folders on disk, the other API-backed volumes file systems in memory.
_FOLDER_MODE, _MEMORY_MODE = 0o777, 0o1777
_TOKEN_MODE = 0o600
# Masks of files of a volume with `fsGroup`, and of its folders.
_READ_ONLY_MASK, _WRITABLE_MASK, _FOLDER_MASK = 0o440, 0o660, 0o110
# A token is renewed after this part of its lifetime, or after a day.
# Source: kubelet/token/token_manager.go, `requiresRefresh`.
_TOKEN_PART, _TOKEN_SECONDS = 0.8, 24 * 3600.0
_TOKEN_LIFETIME = 3600.0


class ProjectedFile(NamedTuple):
    """A file of an API-backed volume.

    Args:
        mode: its permissions.
        user: its owner; None for the user of this process.
    """

    data: bytes
    mode: int
    user: int | None = None


def write_atomically(
    folder: Path,
    files: Mapping[str, ProjectedFile],
    now: float,
    group: int | None = None,
    mode: int = _FOLDER_MODE,
) -> bool:
    """Replace the files of a volume at once; False if they are the same already.

    Args:
        folder: the folder of the volume.
        files: the files by relative path.
        now: seconds since the epoch, for the name of the new folder.
        group: the group of the files (`fsGroup`); None for that of this process.
        mode: the permissions of the folder.
    """
    if not folder.exists():
        folder.mkdir(parents=True)
        _set_owner(folder, None, group)
        folder.chmod(mode if group is None else mode | stat.S_ISGID)
    data = folder / _DATA
    old = data.resolve() if data.is_symlink() else None
    if (
        old is not None
        and old.is_dir()
        and _read_all(old) == {path: (file.data, file.mode) for path, file in files.items()}
    ):
        return False
    moment = datetime.fromtimestamp(now, UTC)
    new = folder / moment.strftime(f"..%Y_%m_%d_%H_%M_%S.{moment.microsecond:06d}")
    number = 0
    while new.exists():
        number += 1
        new = new.with_name(f"{new.name.partition('-')[0]}-{number}")
    new.mkdir()
    new.chmod(0o755)
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
        _set_owner(target, file.user, group)
        target.chmod(file.mode)
    if group is not None:
        _share_folders(new, group)
    link = folder / _NEW_DATA
    with suppress(FileNotFoundError):
        link.unlink()
    link.symlink_to(new.name)
    link.rename(data)
    _link_names(folder, {Path(path).parts[0] for path in files})
    if old is not None and old != new:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _link_names(folder: Path, names: set[str]) -> None:
    """Link the first parts of the paths into `..data`, and remove links of former ones."""
    for name in sorted(names):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"{_DATA}/{name}")
    for path in folder.iterdir():
        if not path.name.startswith("..") and path.name not in names:
            path.unlink()


def _read_all(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in folder.rglob("*")
        if path.is_file()
    }


def _set_owner(path: Path, user: int | None, group: int | None) -> None:
    """Set owner and group, as far as this process may."""
    if user is not None or group is not None:
        with suppress(PermissionError, OSError):
            os.chown(path, -1 if user is None else user, -1 if group is None else group)


def _share_folders(folder: Path, group: int) -> None:
    for path in (folder, *(descendant for descendant in folder.rglob("*") if descendant.is_dir())):
        _set_owner(path, None, group)
        path.chmod(
            stat.S_IMODE(path.stat().st_mode) | _READ_ONLY_MASK | _FOLDER_MASK | stat.S_ISGID
        )


def _share_writable(folder: Path, group: int) -> None:
    """Give a writable volume to a group."""
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode) | _WRITABLE_MASK
        if path.is_dir():
            mode |= _FOLDER_MASK | stat.S_ISGID
        _set_owner(path, None, group)
        path.chmod(mode)


class _Token(NamedTuple):
    """An issued token and the time of its renewal."""

    data: bytes
    renewal: float


class PodVolumeFolders:
    """The folders of one pod's volumes.

    Args:
        folder: the folder of the pod; created on first use.
        shared: the folders of volumes that outlive pods, and the pod's own simulated ones.
    """

    def __init__(self, cluster: Cluster, folder: Path, shared: PodVolumes) -> None:
        self._cluster = cluster
        self._folder = folder
        self._shared = shared
        self._tokens: dict[tuple[str, str], _Token] = {}
        # By volume; no container can write there.
        self._written: dict[str, dict[str, ProjectedFile]] = {}

    def list_empty_dirs(self, pod: Obj) -> tuple[EmptyDir, ...]:
        """Return the pod's empty folders."""
        group = _get_fs_group(pod)
        empty_dirs = []
        for volume in pod["spec"].get("volumes") or ():
            source = volume.get("emptyDir")
            if source is None:
                continue
            # On disk `sizeLimit` is no limit of the file system: the kubelet evicts the pod.
            size = get_memory_size(pod, source) if source.get("medium") == "Memory" else None
            empty_dirs.append(EmptyDir(volume["name"], size, group))
        return tuple(empty_dirs)

    def share_empty_dirs(self, pod: Obj, folders: Mapping[str, Path]) -> None:
        """Let the volumes in memory use the empty folders that were made."""
        for volume in pod["spec"].get("volumes") or ():
            path = folders.get(volume["name"])
            if "emptyDir" in volume and path is not None:
                self._shared.get_empty_dir(pod, volume).set_entries(HostEntries(path))

    def write(self, pod: Obj, places: Mapping[str, str]) -> bool:
        """Write the pod's API-backed volumes; whether any has changed.

        A volume whose objects are gone keeps its files.

        Args:
            places: values of the `fieldRef` paths that belong to the node.
        """
        changed = False
        for volume in pod["spec"].get("volumes") or ():
            if not any(kind in volume for kind in _API_KINDS) or any(
                find_source_error(self._cluster, pod, source) for source in list_sources(volume)
            ):
                continue
            files = dict(self._list_files(pod, volume, places))
            if self._written.get(volume["name"]) == files:
                continue
            folder = self._get_path(volume)
            now, group = self._cluster.clock.time(), _get_fs_group(pod)
            mode = _FOLDER_MODE if "configMap" in volume else _MEMORY_MODE
            if write_atomically(folder, files, now, group, mode):
                changed = True
            self._written[volume["name"]] = files
        return changed

    def _get_path(self, volume: Obj) -> Path:
        return self._folder / "volumes" / str(volume["name"])

    def _list_files(
        self, pod: Obj, volume: Obj, places: Mapping[str, str]
    ) -> Iterator[tuple[str, ProjectedFile]]:
        shared = next(volume[kind] for kind in _API_KINDS if kind in volume) or {}
        default = shared.get("defaultMode", _DEFAULT_MODE)
        mask = _READ_ONLY_MASK if _get_fs_group(pod) is not None else 0
        user = _get_common_user(pod)
        for source in list_sources(volume):
            if "serviceAccountToken" in source:
                service_account_token = source["serviceAccountToken"]
                owned = user is not None or mask
                mode = _TOKEN_MODE if owned else default
                data = self._get_token(pod, volume["name"], service_account_token)
                yield service_account_token["path"], ProjectedFile(data, mode | mask, user)
                continue
            kind = next(kind for kind in _API_KINDS if kind in source)
            modes = {
                item["path"]: item["mode"]
                for item in (source[kind] or {}).get("items") or ()
                if item.get("mode") is not None
            }
            for path, content in read_contents(self._cluster, pod, source, places):
                data = content() if callable(content) else content
                yield path, ProjectedFile(data, modes.get(path, default) | mask)

    def _get_token(self, pod: Obj, volume: str, source: Obj) -> bytes:
        """Return the token of a volume, renewed after 80 % of its lifetime.

        Source: kubelet/token/token_manager.go, `GetServiceAccountToken`.
        """
        key, now = (volume, source["path"]), self._cluster.clock.time()
        token = self._tokens.get(key)
        if token is None or now >= token.renewal:
            data = issue_token(self._cluster, pod, source)
            if not data and token is not None:
                return token.data
            lifetime = float(source.get("expirationSeconds") or _TOKEN_LIFETIME)
            token = _Token(data, now + min(lifetime * _TOKEN_PART, _TOKEN_SECONDS))
            self._tokens[key] = token
        return token.data

    def list_mounts(self, pod: Obj, container: Obj, env: dict[str, str]) -> list[Mount]:
        """Return the mounts of a container.

        Args:
            env: the container's variables, for `subPathExpr`.

        Raises:
            ContainerConfigError: a sub-path cannot be used.
        """
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
        mounts = []
        for mount in container.get("volumeMounts") or ():
            part = get_sub_path(mount, env)
            volume = volumes.get(mount["name"]) or {}
            read_only = bool(mount.get("readOnly")) or any(
                kind in volume for kind in (*_API_KINDS, "image")
            )
            target = mount["mountPath"]
            if "emptyDir" in volume:
                mounts.append(
                    Mount(target, empty_dir=mount["name"], sub_path=part, readonly=read_only)
                )
                continue
            source = self._find_source(pod, volume)
            if part:
                source = _resolve_sub_path(source, part, mount, container)
            mounts.append(Mount(target, str(source), readonly=read_only))
        return mounts

    def _find_source(self, pod: Obj, volume: Obj) -> Path:
        """Return the folder or file of a volume."""
        if any(kind in volume for kind in _API_KINDS):
            return self._get_path(volume)
        if "image" in volume:
            return self._copy_image(volume)
        node = self._shared.get_node(pod, volume)
        if isinstance(node, HostFile):
            return node.path
        entries = node.entries if isinstance(node, Directory) else None
        path = entries.path if isinstance(entries, HostEntries) else self._get_path(volume)
        path.mkdir(parents=True, exist_ok=True)
        group = _get_fs_group(pod)
        if "hostPath" not in volume and group is not None:
            _share_writable(path, group)
        return path

    def _copy_image(self, volume: Obj) -> Path:
        """Return the folder with a copy of an image's files, made for the first container."""
        folder = self._get_path(volume)
        if folder.exists():
            return folder
        folder.mkdir(parents=True)
        for path, source in list_image_files(self._shared.images, volume).items():
            target = folder / path.strip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if Path(source).is_dir():
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(source, target)
        return folder

    def close(self) -> None:
        """Remove the folders."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _get_fs_group(pod: Obj) -> int | None:
    group: int | None = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    return group


def _get_common_user(pod: Obj) -> int | None:
    """Return the user that all containers run as; None if they differ or have none.

    Source: pkg/volume/util/util.go, `FsUserFrom`.
    """
    spec = pod["spec"]
    default = (spec.get("securityContext") or {}).get("runAsUser")
    users = {
        user if user is not None else default
        for container in (*(spec.get("initContainers") or ()), *spec["containers"])
        for user in [(container.get("securityContext") or {}).get("runAsUser")]
    }
    user: int | None = users.pop() if len(users) == 1 else None
    return user


def _resolve_sub_path(folder: Path, part: str, mount: Obj, container: Obj) -> Path:
    """Return the file or folder at a sub-path, a folder created if it is missing.

    Raises:
        ContainerConfigError: it leaves the volume, or a file is in the way.

    Source: pkg/volume/util/subpath/subpath_linux.go, `SafeMakeDir`, `doBindSubPath`.
    """
    base = folder.resolve()
    target = (base / part).resolve()
    why = f'failed to prepare subPath for volumeMount "{mount["name"]}" of container '
    if not target.is_relative_to(base):
        raise ContainerConfigError(f'{why}"{container["name"]}"')
    if not target.exists():
        try:
            target.mkdir(parents=True)
            target.chmod(0o777)
        except OSError:
            text = f'failed to create subPath directory for volumeMount "{mount["name"]}" of '
            raise ContainerConfigError(f'{text}container "{container["name"]}"') from None
    return target

"""Root file system of a container: the machine's folders, written to in a copy, and mounts.

All of it happens in mount namespaces of the pod, in a process that the launcher forked: nothing is
mounted on the machine. The pod's storage is one tmpfs, so that a full disk is the pod's own.

Source: runc libcontainer/rootfs_linux.go, `prepareRootfs`, `createDevices`, `finalizeRootfs`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.simulator.runtimes.processes.system_calls import (
    MNT_DETACH,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_STRICTATIME,
    list_mounts,
    mount,
    pivot_root,
    restrict_mount,
    umount,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Folders that each container has for itself, empty at first, with their modes.
_OWN = {"tmp": 0o1777, "run": 0o755}
_OWN_BELOW = {"var/tmp": 0o1777, "var/run": 0o755, "var/log": 0o755, "var/cache": 0o755}
_SPECIAL = ("dev", "proc", "sys")
OWN_FOLDERS = tuple(f"/{name}" for name in (*_OWN, *_OWN_BELOW))
"""Folders that each container has for itself."""
SPECIAL_FOLDERS = tuple(f"/{name}" for name in _SPECIAL)
"""Folders of the kernel's files."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_SHM_BYTES = 64 << 20
MAX_COPIED_BYTES = 1 << 20
"""Larger files of an image are bound: copies count as memory of the container."""
_BYTES_PER_INODE = 4096


class RootError(Exception):
    """A root file system that cannot be made; the text is in runc's words.

    Args:
        denied: what the container's user may not do, as `describe_denied` returns; or empty.
    """

    def __init__(self, text: str, denied: str = "") -> None:
        super().__init__(text)
        self.denied = denied


class _Bind(NamedTuple):
    """A file or folder to be bound within the new root."""

    target: str
    fd: int
    is_folder: bool
    read_only: bool
    source: str
    is_copied: bool = False
    layer_fd: int | None = None
    """Folder for what is written, if the container has a copy of the machine's folder."""
    is_link: bool = False
    """True if the container has a link to the source instead."""


def get_layer(container: str) -> str:
    """Return the folder of what a container writes, relative to the pod's storage."""
    return f"layers/{container}"


def create_storage(storage: str, config: Mapping[str, Any]) -> list[int]:
    """Mount a pod's storage.

    Args:
        storage: an empty folder.
        config: `SandboxConfig` as a mapping.

    Returns:
        Descriptors of the storage and of its empty folders.
    """
    _mount_tmpfs(storage, config["storage_bytes"], "mode=755")
    for name in ("layers", "empty", "files", "shm"):
        os.mkdir(f"{storage}/{name}")
    _mount_tmpfs(f"{storage}/shm", _SHM_BYTES, "mode=1777", MS_NOEXEC)
    for number, (_, content) in enumerate(sorted(config["files"].items())):
        with open(f"{storage}/files/{number}", "wb") as file:
            file.write(content.encode("latin-1"))
    opened = [os.open(storage, os.O_RDONLY | os.O_DIRECTORY)]
    for empty_dir in config["empty_dirs"]:
        path = f"{storage}/empty/{empty_dir['name']}"
        os.mkdir(path)
        if empty_dir["size_bytes"] is not None:
            _mount_tmpfs(path, empty_dir["size_bytes"], "mode=1777")
        set_mode(path, empty_dir)
        opened.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    return opened


def set_mode(path: str, empty_dir: Mapping[str, Any]) -> None:
    """Give the folder of an emptyDir volume its mode and group.

    Args:
        empty_dir: `EmptyDir` as a mapping; one with a size is in memory.
    """
    mode = 0o777 if empty_dir["size_bytes"] is None else 0o1777
    os.chmod(path, mode)
    if empty_dir["group"] is not None:
        with contextlib.suppress(OSError):  # not in the map of the user namespace
            os.chown(path, -1, empty_dir["group"])
            os.chmod(path, mode | stat.S_ISGID)


def _mount_tmpfs(target: str, size: int, options: str, flags: int = 0) -> None:
    inodes = max(size // _BYTES_PER_INODE, 64)
    options += f",size={max(size, 4096)},nr_inodes={inodes}"
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV | flags, options)


def is_overlay_supported(folder: str) -> bool:
    """Return whether this process may mount overlays; call it in a mount namespace of its own."""
    _mount_tmpfs(folder, 1 << 20, "mode=755")
    for name in ("upper", "work", "merged", "lower"):
        os.mkdir(f"{folder}/{name}")
    try:
        _mount_overlay(f"{folder}/lower", folder, f"{folder}/merged")
    except OSError:
        return False
    umount(f"{folder}/merged", MNT_DETACH)
    return True


def _mount_overlay(lower: str, layer: str, target: str) -> None:
    data = f"lowerdir={lower},upperdir={layer}/upper,workdir={layer}/work"
    flags = MS_NODEV
    try:
        mount("overlay", target, "overlay", flags, f"{data},userxattr")
    except OSError:
        # Before Linux 5.11; such kernels allow overlays outside user namespaces only.
        mount("overlay", target, "overlay", flags, data)


def enter_root(storage: str, config: Mapping[str, Any], sandbox: Mapping[str, Any]) -> None:
    """Make a container's root this process' root, in its new mount and PID namespaces.

    Args:
        storage: the pod's storage.
        config: `ContainerConfig` as a mapping.
        sandbox: `SandboxConfig` as a mapping.

    Raises:
        RootError: a source is missing, a target has the wrong type.
        OSError: a system call was refused.
    """
    layer = f"{storage}/{get_layer(config['id'])}"
    root = f"{layer}/root"
    os.makedirs(root)
    mount(root, root, None, MS_BIND)
    binds = list(_open_mounts(storage, config, sandbox))
    for bind in binds:
        if bind.layer_fd is not None:
            layer_folder = f"/proc/self/fd/{bind.layer_fd}"
            _make_layer(f"/proc/self/fd/{bind.fd}", layer_folder, _list_below(bind, binds, config))
    needed = [(bind.target, bind.is_folder) for bind in binds]
    needed.append((config["workdir"], True))
    made = _mount_machine(root, layer, needed)
    for name, mode in _OWN_BELOW.items():
        is_link = os.path.islink(f"/{name}")
        if name.split("/")[0] in made and os.path.isdir(f"/{name}") and not is_link:
            own = f"{layer}/own-{name.replace('/', '-')}"
            os.mkdir(own)
            os.chmod(own, mode)
            mount(own, f"{root}/{name}", None, MS_BIND)
    _mount_special(root, storage, layer, is_privileged=config["privileged"])
    pivot_root(root)
    for bind in binds:
        _bind(bind)
    _hide(sandbox["hidden"])
    umount(".", MNT_DETACH)
    os.chdir("/")
    make_working_directory(config["workdir"])
    if config["read_only_root"]:
        restrict_mount("/", read_only=True)
        covered = {os.path.realpath(bind.target) for bind in binds}
        for name in [*made, *_OWN_BELOW]:
            if os.path.realpath(f"/{name}") in covered:
                continue  # a volume, which has an access of its own
            with contextlib.suppress(OSError):  # no mount
                restrict_mount(f"/{name}", read_only=True)


def make_working_directory(path: str) -> None:
    """Create a container's working directory where it is missing.

    Raises:
        RootError: it is no folder, or cannot be created.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        raise RootError(f"mkdir {path}: not a directory") from None
    except OSError as error:
        raise RootError(f"mkdir {path}: {describe_error(error)}") from None


def describe_error(error: OSError) -> str:
    """Return the text of an error as Go writes it."""
    text = os.strerror(error.errno or 0)
    return text[:1].lower() + text[1:]


def _open_mounts(
    storage: str, config: Mapping[str, Any], sandbox: Mapping[str, Any]
) -> Iterator[_Bind]:
    """Open the sources of all mounts, parents first, while the machine's root is still there."""
    binds: list[_Bind] = []
    binds += [
        _open_bind(os.path.realpath(path), path)._replace(is_link=True)
        for path in config["visible"]
        if os.path.isdir(path) and os.path.realpath(path) != os.path.normpath(path)
    ]
    for number, path in enumerate(_list_copied(config["visible"])):
        folder = f"{storage}/{get_layer(config['id'])}/visible/{number}"
        os.makedirs(folder)
        layer_fd = os.open(folder, os.O_PATH)
        read_only = config["read_only_root"]
        binds.append(_open_bind(path, path, read_only=read_only)._replace(layer_fd=layer_fd))
    for number, path in enumerate(sorted(sandbox["files"])):
        binds.append(_open_bind(f"{storage}/files/{number}", path))
    if config["termination_log"]:
        log = f"{storage}/{get_layer(config['id'])}/termination-log"
        os.close(os.open(log, os.O_CREAT | os.O_WRONLY))
        os.chmod(log, 0o666)
        binds.append(_open_bind(log, config["termination_log"]))
    for mount_config in config["mounts"]:
        base = mount_config["source"]
        if mount_config["empty_dir"] is not None:
            base = f"{storage}/empty/{mount_config['empty_dir']}"
        source = (
            resolve_sub_path(base, mount_config["sub_path"]) if mount_config["sub_path"] else base
        )
        binds.append(
            _open_bind(
                source,
                mount_config["target"],
                read_only=mount_config["read_only"],
                is_of_image=mount_config["is_of_image"],
            )
        )
    yield from sorted(binds, key=lambda bind: bind.target.count("/"))


def _list_copied(folders: Sequence[str]) -> list[str]:
    """Return the folders without links that a container needs in folders of its own.

    A folder below another one is left out: the same files are there, unless it is a mount.
    """
    kept: list[str] = []
    for path in sorted({os.path.realpath(folder) for folder in folders}, key=len):
        is_own = any(path.startswith(f"{own}/") for own in OWN_FOLDERS)
        if is_own and os.path.isdir(path) and not any(_is_below(path, top) for top in kept):
            kept.append(path)
    return kept


def _is_below(path: str, top: str) -> bool:
    """Return whether a folder is below another one, with no mount between them."""
    if not path.startswith(f"{top}/"):
        return False
    return not any(
        point != top and f"{path}/".startswith(f"{point}/") for point in list_mounts(top)
    )


def _list_below(
    bind: _Bind, binds: Sequence[_Bind], config: Mapping[str, Any]
) -> list[tuple[str, bool]]:
    """Return what must exist below a folder, relative to it, with True for folders."""
    needed = [(each.target, each.is_folder) for each in binds if not each.is_link]
    needed.append((config["workdir"], True))
    prefix = f"{bind.target}/"
    return [
        (target.removeprefix(prefix), is_folder)
        for target, is_folder in ((os.path.realpath(path), is_folder) for path, is_folder in needed)
        if target.startswith(prefix)
    ]


def _open_bind(
    source: str, target: str, *, read_only: bool = False, is_of_image: bool = False
) -> _Bind:
    try:
        fd = os.open(source, os.O_PATH)
    except OSError as error:
        text = f'error mounting "{source}" to rootfs at "{target}": stat {source}'
        raise RootError(f"{text}: {describe_error(error)}") from None
    status = os.fstat(fd)
    is_copied = is_of_image and stat.S_ISREG(status.st_mode) and status.st_size <= MAX_COPIED_BYTES
    is_folder = stat.S_ISDIR(status.st_mode)
    return _Bind(os.path.normpath(target), fd, is_folder, read_only, source, is_copied)


def resolve_sub_path(base: str, sub_path: str) -> str:
    """Return a path below a volume, created as a folder where it is missing.

    Source: pkg/volume/util/subpath/subpath_linux.go, `doSafeMakeDir`, `safeOpenSubPath`.
    """
    parent = os.path.realpath(base)
    path = os.path.realpath(f"{parent}/{sub_path}")
    if path != parent and not path.startswith(f"{parent}/"):
        raise RootError(f"failed to create subPath directory: {path} not within {parent}")
    if not os.path.lexists(path):
        mode = stat.S_IMODE(os.stat(parent).st_mode)
        os.makedirs(path)
        os.chmod(path, mode)
    return path


def _mount_machine(root: str, layer: str, needed: Sequence[tuple[str, bool]]) -> list[str]:
    """Mount the machine's top folders below a new root.

    Args:
        root: the new root.
        layer: folder for what the container writes.
        needed: paths in the container that must exist, with True for folders.

    Returns:
        The names of top folders that are mounts.
    """
    made: list[str] = []
    by_top: dict[str, list[tuple[str, bool]]] = {}
    for path, is_folder in needed:
        resolved = _resolve_in_machine(path)
        top, _, rest = resolved.strip("/").partition("/")
        if rest:
            by_top.setdefault(top, []).append((rest, is_folder))
    for entry in sorted(os.scandir("/"), key=lambda entry: entry.name):
        name = entry.name
        target = f"{root}/{name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.is_dir():
            os.mkdir(target)
            if name in _SPECIAL:
                continue
            if name in _OWN or _is_replaceable(entry.path):
                os.chmod(target, _OWN.get(name, 0o755))
                continue
            _mount_folder(entry.path, target, f"{layer}/machine/{name}", by_top.get(name, ()))
            made.append(name)
    for name, mode in {**_OWN, **dict.fromkeys(_SPECIAL, 0o755)}.items():
        if not os.path.lexists(f"{root}/{name}"):
            os.mkdir(f"{root}/{name}")
            os.chmod(f"{root}/{name}", mode)
    return made


def _is_replaceable(folder: str) -> bool:
    """Return whether a container gets an empty folder instead: nothing in it can be read."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return True


def _resolve_in_machine(path: str) -> str:
    """Return a path without the machine's symbolic links, as far as a container has them."""
    top = path.strip("/").partition("/")[0]
    if top in _OWN or top in _SPECIAL:
        return os.path.normpath(path)
    return os.path.realpath(path)


def _mount_folder(source: str, target: str, layer: str, needed: Sequence[tuple[str, bool]]) -> None:
    """Mount a folder of the machine so that writes go to a layer, or read-only.

    Args:
        needed: what must exist below the folder, with True for folders.
    """
    os.makedirs(layer)
    _make_layer(source, layer, needed)
    try:
        _mount_overlay(source, layer, target)
    except OSError:
        # Mounts below a folder are locked in a user namespace.
        mount(source, target, None, MS_BIND | MS_REC)
        mount(None, target, None, MS_PRIVATE | MS_REC)
        restrict_mount(target, read_only=True, recursive=True)


def _make_layer(source: str, layer: str, needed: Sequence[tuple[str, bool]]) -> None:
    """Make the folders of an overlay over a folder of the machine.

    What is `needed` is created in the layer: its owner can write there, which a user namespace
    without the machine's root could not do in the machine's own folder.
    """
    os.mkdir(f"{layer}/work")
    upper = f"{layer}/upper"
    os.mkdir(upper)
    _copy_mode(source, upper)
    for rest, is_folder in needed:
        below = ""
        parts = rest.split("/")
        for part in parts if is_folder else parts[:-1]:
            below += f"/{part}"
            if os.path.lexists(source + below) and not os.path.isdir(source + below):
                break
            if not os.path.lexists(upper + below):
                os.mkdir(upper + below)
                _copy_mode(source + below, upper + below)
        else:
            if not is_folder and not os.path.lexists(f"{upper}/{rest}"):
                os.close(os.open(f"{upper}/{rest}", os.O_CREAT | os.O_WRONLY, 0o644))


def _copy_mode(source: str, target: str) -> None:
    mode = 0o755
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(os.stat(source).st_mode) | 0o700
    os.chmod(target, mode)


def _mount_special(root: str, storage: str, layer: str, *, is_privileged: bool) -> None:
    """Mount /proc, /sys and /dev: what is the machine's there is read-only, or missing."""
    common = MS_NOSUID | MS_NODEV | MS_NOEXEC
    mount("proc", f"{root}/proc", "proc", common)
    try:
        mount("sysfs", f"{root}/sys", "sysfs", common | MS_RDONLY)
    except OSError:
        # The network namespace is not the pod's own.
        mount("/sys", f"{root}/sys", None, MS_BIND | MS_REC)
        restrict_mount(f"{root}/sys", read_only=True, recursive=True)
    _protect_kernel_files(f"{root}/proc", f"{layer}/proc", has_network_settings=is_privileged)
    device = f"{root}/dev"
    flags = MS_NOSUID | MS_NODEV | MS_STRICTATIME
    mount("tmpfs", device, "tmpfs", flags, "mode=755,size=65536k")
    for name in _DEVICES:
        if os.path.lexists(f"/dev/{name}"):
            os.close(os.open(f"{device}/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
            mount(f"/dev/{name}", f"{device}/{name}", None, MS_BIND)
    for name, link in _DEVICE_LINKS.items():
        os.symlink(link, f"{device}/{name}")
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"{device}/{name}")
    options = "newinstance,ptmxmode=0666,mode=0620"
    try:
        mount("devpts", f"{device}/pts", "devpts", MS_NOSUID | MS_NOEXEC, f"{options},gid=5")
    except OSError:  # the group is not in the map of the user namespace
        mount("devpts", f"{device}/pts", "devpts", MS_NOSUID | MS_NOEXEC, options)
    mount(f"{storage}/shm", f"{device}/shm", None, MS_BIND)
    with contextlib.suppress(OSError):  # a kernel without message queues
        mount("mqueue", f"{device}/mqueue", "mqueue", common)


def _protect_kernel_files(proc: str, read_only: str, *, has_network_settings: bool) -> None:
    """Make everything in /proc but processes read-only.

    Mounts there keep a container from mounting a new /proc too, where it would see all of it.

    Args:
        read_only: path of a new folder, for a read-only mount from which all others are.
        has_network_settings: whether settings of the pod's own network can be changed.
    """
    with os.scandir(proc) as entries:
        names = [
            entry.name for entry in entries if not entry.name.isdecimal() and not entry.is_symlink()
        ]
    os.mkdir(read_only)
    mount(proc, read_only, None, MS_BIND)
    restrict_mount(read_only, read_only=True)
    network = os.open(f"{proc}/sys/net", os.O_PATH)
    for name in names:
        mount(f"{read_only}/{name}", f"{proc}/{name}", None, MS_BIND)
    if has_network_settings:
        mount(f"/proc/self/fd/{network}", f"{proc}/sys/net", None, MS_BIND)
    os.close(network)


def _bind(bind: _Bind) -> None:
    target = bind.target
    try:
        if bind.is_link:
            if not os.path.lexists(target):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.symlink(bind.source, target)
            return
        if not os.path.lexists(target) or os.path.islink(target):
            real = os.path.realpath(target)
            if bind.is_folder:
                os.makedirs(real, exist_ok=True)
            elif not os.path.exists(real):
                os.makedirs(os.path.dirname(real), exist_ok=True)
                os.close(os.open(real, os.O_CREAT | os.O_WRONLY, 0o644))
        if bind.is_copied and not os.path.isdir(target):
            with open(f"/proc/self/fd/{bind.fd}", "rb") as file, open(target, "wb") as copy:
                copy.write(file.read())
            os.chmod(target, stat.S_IMODE(os.fstat(bind.fd).st_mode))
            return
        if bind.is_folder != os.path.isdir(target):
            kind = "not a directory" if bind.is_folder else "is a directory"
            raise RootError(f'error mounting "{bind.source}" to rootfs at "{target}": {kind}')
        read_only = bind.read_only
        if not _mount_copy(bind):
            mount(f"/proc/self/fd/{bind.fd}", target, None, MS_BIND | MS_REC)
            read_only = read_only or bind.layer_fd is not None
        restrict_mount(target, read_only=read_only, recursive=True)
    except OSError as error:
        text = f'error mounting "{bind.source}" to rootfs at "{target}"'
        raise RootError(f"{text}: {describe_error(error)}") from None
    finally:
        os.close(bind.fd)
        if bind.layer_fd is not None:
            os.close(bind.layer_fd)


def _mount_copy(bind: _Bind) -> bool:
    """Mount a folder of the machine so that writes go to its layer; returns whether it could."""
    if bind.layer_fd is None:
        return False
    try:
        _mount_overlay(f"/proc/self/fd/{bind.fd}", f"/proc/self/fd/{bind.layer_fd}", bind.target)
    except OSError:
        return False
    return True


def _hide(paths: Sequence[str]) -> None:
    """Cover folders and files of the machine."""
    for path in paths:
        if os.path.isdir(path):
            flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY
            mount("tmpfs", path, "tmpfs", flags, "size=4k,mode=555")
        elif os.path.lexists(path):
            mount("/dev/null", path, None, MS_BIND)


def remove_below(folder: int) -> None:
    """Remove everything below a folder; takes its descriptor."""
    with os.scandir(folder) as entries:
        listed = list(entries)
    for entry in listed:
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.chmod(entry.name, 0o700, dir_fd=folder)
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                inner = os.open(entry.name, flags, dir_fd=folder)
                remove_below(inner)
                os.rmdir(entry.name, dir_fd=folder)
            else:
                os.unlink(entry.name, dir_fd=folder)
    os.close(folder)

"""Copies of files and folders to and from containers, as tar archives over `exec`.

A copy has the bytes and the permissions of its source, and the owner that makes it. Links within a
folder stay links; others are refused, as are names that lead out of the folder.

Source: kubectl/pkg/cmd/cp/cp.go.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from pytest_kwait.client.resource import PODS
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_kwait.client.exec import ExecResult, Input
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline

_CHUNK = 256 * 1024
_MAX_LINKS = 10
"""Links that a source in a container may lead through."""
_IN_MEMORY = 4 * 1024 * 1024
"""Bytes of a received archive that are kept in memory; a larger one is in a temporary file."""
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_VALID_LINKS = "only relative links within it are copied"
_NO_FILE = "a device, pipe or socket, which cannot be copied"
_NOT_STARTED = (126, 127)
"""The exit codes of a shell for a program that cannot be run."""
_DRAIN = ("sh", "-c", '"$@" || { code=$?; cat >/dev/null; exit $code; }', "sh")
"""Reads what a failed command left of its input.

Of a command that ends before its input does, kubelets may lose the exit code, or never end.
"""
_CHANGED = "file changed as we read it"
"""What GNU tar writes about a file that grows, such as a log; its archive is whole."""


def find_source(source: str | Path, folders: Iterable[Path]) -> Path:
    """Return the local file or folder at a path.

    Args:
        folders: where a relative path is looked for, first match wins.

    Raises:
        InvalidArgument: there is none.
    """
    check_local_path("source", source)
    tried = [folder / source for folder in dict.fromkeys(folders)]
    for path in tried:
        if path.exists():
            return path
    places = " or ".join(map(str, dict.fromkeys(tried)))
    raise InvalidArgument("source", source, f"there is no {places}")


def check_container_path(what: str, path: object) -> str:
    """Return an absolute path in a container.

    Raises:
        InvalidArgument: it is none.
    """
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        valid = "use an absolute path in the container, for example '/tmp/data'"
        raise InvalidArgument(what, path, valid)
    return path


def check_local_path(what: str, path: object) -> Path:
    """Return the path of a file or folder on this machine.

    Raises:
        InvalidArgument: it is none.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise InvalidArgument(what, path, "use the path of a file or folder")
    return Path(path)


class ContainerFiles:
    """The files of one container.

    Args:
        pod: the name of its pod.
        container: its name; None for the pod's only or default one.
        deadline: the deadline of all commands.
    """

    def __init__(
        self,
        session: ApiSession,
        namespace: str,
        pod: str,
        container: str | None,
        deadline: Deadline,
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._pod = pod
        self._container = container
        self._deadline = deadline

    def send(self, source: Path, target: str) -> str:
        """Copy a local file or folder into the container; return the path of the copy.

        Args:
            source: its path. If it is a link, it is followed.
            target: the absolute path of the copy, or the folder to copy it into.

        Raises:
            ApiError: a command could not be started.
            InvalidArgument: the source has a link that leads out of it, or a device.
            KwaitError: the container has no tar, or tar failed.
        """
        # The name is that of a link, and not of what it leads to.
        name = source.name or source.resolve().name
        source = source.resolve()
        if target.endswith("/") or self._is_folder(target):
            target = posixpath.join(target, source.name if name == ".." else name)
        target = posixpath.normpath(f"/{target.lstrip('/')}")
        members = list(_list_members(source, target.lstrip("/")))
        # Names from the root have their missing folders created. Who unpacks them owns them, also
        # one that passes for root and may give nothing away.
        self._check(target, partial(self._extract, members))
        return target

    def receive(self, source: str, target: Path) -> Path:
        """Copy a file or folder of the container to this machine; return the path of the copy.

        Args:
            source: its absolute path. If it is a link, it is followed.
            target: the path of the copy, or an existing folder to copy it into.

        Raises:
            ApiError: a command could not be started.
            KwaitError: the container has no tar, tar failed, or the archive has a link or name
                that leads out of the source, or a device.
            OSError: the copy cannot be written.
        """
        if target.is_dir():
            target /= posixpath.basename(posixpath.normpath(source))
        path = posixpath.normpath(source)
        for _ in range(_MAX_LINKS):
            folder, name = posixpath.split(path)
            if name in ("", ".", ".."):
                folder, name = path, "."
            with tempfile.SpooledTemporaryFile(_IN_MEMORY) as received:
                command = ["tar", "-cf", "-", "-C", folder, f"./{name}"]
                self._check(source, partial(self._run, command, stdout=received.write))
                received.seek(0)
                link = self._unpack(received, _Root(source, name), target)
            if not link:
                return target
            path = posixpath.join(folder, link)
        raise KwaitError(f"{source} of {self._describe()} leads through more than 10 links")

    def _unpack(self, received: IO[bytes], root: _Root, target: Path) -> str:
        """Write the files of an archive; return the target of the link that it is, or ""."""
        try:
            with tarfile.open(fileobj=received, mode="r:", errors="surrogateescape") as archive:
                members = root.check(archive.getmembers())
                top = members.get(PurePosixPath())
                if top is None:
                    raise KwaitError(self._failure(root.source, "its archive is empty"))
                if top.issym():
                    return top.linkname
                _write_members(archive, members, root, target)
        except tarfile.TarError as error:
            problem = f"its archive is damaged: {error}"
            raise KwaitError(self._failure(root.source, problem)) from error
        return ""

    def _is_folder(self, path: str) -> bool:
        try:
            return self._run(["test", "-d", path]).exit_code == 0
        except ApiError as error:
            if _is_missing(error, "test"):
                return False
            raise

    def _extract(self, members: Iterable[tuple[Path, tarfile.TarInfo]]) -> ExecResult:
        """Unpack an archive below the root; a container without a shell has tar alone do it."""
        command = ("tar", "-xompf", "-", "-C", "/")
        try:
            done = self._run((*_DRAIN, *command), stdin=_write_archive(members))
        except ApiError as error:
            if not _is_missing(error, "sh"):
                raise
        else:
            if done.exit_code not in _NOT_STARTED:
                return done
        return self._run(command, stdin=_write_archive(members))

    def _check(self, path: str, run_tar: Callable[[], ExecResult]) -> None:
        """Raise the error of a tar that fails.

        Args:
            path: the path in the container that is copied, for messages.
        """
        try:
            done = run_tar()
        except ApiError as error:
            if not _is_missing(error, "tar"):
                raise
            raise KwaitError(self._failure(path, self._missing_tar())) from error
        if done.exit_code in _NOT_STARTED:
            raise KwaitError(self._failure(path, self._missing_tar()))
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        is_whole = done.exit_code == 1 and lines and all(line.endswith(_CHANGED) for line in lines)
        if done.exit_code != 0 and not is_whole:
            said = "; ".join(lines[:5]) or "it wrote nothing"
            problem = f"tar ended with exit code {done.exit_code}: {said}"
            raise KwaitError(self._failure(path, problem))

    def _run(
        self,
        command: Sequence[str],
        *,
        stdin: Input | None = None,
        stdout: Callable[[bytes], object] | None = None,
    ) -> ExecResult:
        return self._session.exec(
            self._namespace,
            self._pod,
            command,
            container=self._container,
            stdin=stdin,
            stdout=stdout,
            deadline=self._deadline,
        )

    def _describe(self) -> str:
        pod = f"pod {self._namespace}/{self._pod}"
        return pod if self._container is None else f"container {self._container} of {pod}"

    def _failure(self, path: str, problem: str) -> str:
        return f"{path} of {self._describe()} could not be copied: {problem}"

    def _missing_tar(self) -> str:
        container = self._container or self._find_container()
        subject = f"container {container}" if container else "the container"
        return (
            f"{subject} has no tar, which copies need; use an image that has it, or mount the "
            "files as a volume that a container with tar mounts too, and name that one"
        )

    def _find_container(self) -> str:
        """Return the container that a command runs in by default; empty if it cannot be seen."""
        with suppress(ApiError, DeadlineExceeded):
            pod = self._session.get(PODS, self._pod, self._namespace, deadline=self._deadline)
            notes = pod["metadata"].get("annotations") or {}
            return str(notes.get(_DEFAULT_CONTAINER) or pod["spec"]["containers"][0]["name"])
        return ""


def _is_missing(error: ApiError, program: str) -> bool:
    """Return whether a command could not be started as its program does not exist.

    Container runtimes word it differently: `exec: "tar": executable file not found in $PATH`.
    """
    message = error.message.lower()
    is_named = f'"{program}"' in message or f"`{program}`" in message
    return is_named and ("not found" in message or "no such file" in message)


# -- to a container


def _list_members(source: Path, name: str) -> Iterator[tuple[Path, tarfile.TarInfo]]:
    """Yield the files of a local file or folder, a folder before its entries.

    Args:
        name: its name in the archive.

    Raises:
        InvalidArgument: a link leads out of the source, or a file is a device.
        OSError: a folder cannot be read.
    """
    yield source, _make_entry(source, name, source)
    if not source.is_dir():
        return
    for folder, folders, files in os.walk(source, onerror=_raise):
        folders.sort()
        for child in sorted([*folders, *files]):
            path = Path(folder, child)
            where = posixpath.join(name, path.relative_to(source).as_posix())
            yield path, _make_entry(path, where, source)


def _raise(error: OSError) -> None:
    raise error


def _make_entry(path: Path, name: str, source: Path) -> tarfile.TarInfo:
    status = path.lstat()
    entry = tarfile.TarInfo(name)
    entry.mode = stat.S_IMODE(status.st_mode) & 0o777
    entry.mtime = int(status.st_mtime)
    if stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
        if _leads_out(PurePosixPath(path.relative_to(source).as_posix()), entry.linkname):
            valid = f"{path} is a link to {entry.linkname}; {_VALID_LINKS}"
            raise InvalidArgument("source", str(source), valid)
    elif stat.S_ISREG(status.st_mode):
        entry.size = status.st_size
    else:
        raise InvalidArgument("source", str(source), f"{path} is {_NO_FILE}")
    return entry


def _write_archive(members: Iterable[tuple[Path, tarfile.TarInfo]]) -> Iterator[bytes]:
    """Yield an archive in pieces, reading one file after the other.

    Raises:
        KwaitError: a file became shorter meanwhile.
    """
    for path, entry in members:
        yield entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        if not entry.isreg():
            continue
        left = entry.size
        with path.open("rb") as file:
            while left:
                data = file.read(min(left, _CHUNK))
                if not data:
                    raise KwaitError(f"{path} became shorter while it was copied")
                left -= len(data)
                yield data
        yield b"\0" * (-entry.size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


# -- from a container


@dataclass(frozen=True, slots=True)
class _Root:
    """The file or folder that an archive has.

    Args:
        source: its path in the container, for messages.
        name: its name in the archive; `.` for none.
    """

    source: str
    name: str

    def check(self, members: Iterable[tarfile.TarInfo]) -> dict[PurePosixPath, tarfile.TarInfo]:
        """Return the members by path from the root, once none of them leads out of it.

        Raises:
            KwaitError: one does, or it is a device or a pipe.
        """
        checked = {self.locate(member.name): member for member in members}
        links = {path for path, member in checked.items() if member.issym()}
        for path, member in checked.items():
            if member.issym() and path != PurePosixPath() and _leads_out(path, member.linkname):
                raise self._refusal(path, f"is a link to {member.linkname}; {_VALID_LINKS}")
            if not links.isdisjoint(path.parents):
                raise self._refusal(path, "lies behind a link")
            if member.islnk() and not self._is_file(checked, member.linkname):
                raise self._refusal(path, f"is a link to {member.linkname}, no file of it")
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                raise self._refusal(path, f"is {_NO_FILE}")
        return checked

    def locate(self, name: str) -> PurePosixPath:
        """Return the path of a member from the root.

        Raises:
            KwaitError: it leads out of the root.
        """
        path = PurePosixPath(name)
        parts = path.parts
        prefix = () if self.name == "." else (self.name,)
        if path.is_absolute() or ".." in parts or parts[: len(prefix)] != prefix:
            text = f"its archive has the name {name!r}, which leads out of it"
            raise KwaitError(f"{self.source} could not be copied: {text}")
        return PurePosixPath(*parts[len(prefix) :])

    def _is_file(self, members: dict[PurePosixPath, tarfile.TarInfo], name: str) -> bool:
        target = members.get(self.locate(name))
        return target is not None and target.isreg()

    def _refusal(self, path: PurePosixPath, problem: str) -> KwaitError:
        where = posixpath.join(self.source, str(path))
        return KwaitError(f"{self.source} could not be copied: {where} {problem}")


def _leads_out(path: PurePosixPath, link: str) -> bool:
    """Return whether a link may lead out of the root that its path begins at.

    After a name `..` may be the parent of what another link leads to, so it counts too.
    """
    parts = PurePosixPath(link).parts
    ups = len([part for part in parts if part == ".."])
    return link.startswith("/") or ups > len(path.parts) - 1 or ".." in parts[ups:]


def _write_members(
    archive: tarfile.TarFile,
    members: dict[PurePosixPath, tarfile.TarInfo],
    root: _Root,
    target: Path,
) -> None:
    """Write the checked members of an archive; links come last, so that none is followed.

    Raises:
        KwaitError: the target has a link that leads out of it, in the place of a folder.
        OSError: a file cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    top = target.parent.resolve() / target.name
    for path, member in members.items():
        where = _make_place(top, path, is_folder=member.isdir())
        if member.isreg() or member.islnk():
            content = members[root.locate(member.linkname)] if member.islnk() else member
            _write_file(archive, content, where)
    for path, member in members.items():
        if member.issym():
            where = _make_place(top, path)
            where.unlink(missing_ok=True)
            where.symlink_to(member.linkname)
    # A folder that may not be written to is filled before.
    for path, member in reversed(members.items()):
        if member.isdir():
            (top / path).chmod(member.mode & 0o777)


def _write_file(archive: tarfile.TarFile, member: tarfile.TarInfo, where: Path) -> None:
    # A file in its place may be a link, or may not be written to.
    where.unlink(missing_ok=True)
    source = archive.extractfile(member)
    with where.open("xb") as file:
        if source is not None:
            shutil.copyfileobj(source, file, _CHUNK)
    where.chmod(member.mode & 0o777)


def _make_place(top: Path, path: PurePosixPath, *, is_folder: bool = False) -> Path:
    """Return the path of a member; its folder exists, in no link that leads out of the copy."""
    where = top / path
    folder = where if is_folder else where.parent
    if folder != top.parent:
        real = folder.resolve()
        if not real.is_relative_to(top):
            raise KwaitError(f"{folder} leads out of {top}, to {real}: remove the link")
        folder.mkdir(parents=True, exist_ok=True)
    return where

"""Copies to and from containers: contents, permissions, links, refusals, missing programs."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.client.exec import ExecResult
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError
from pytest_kwait.suite.file_copies import ContainerFiles, find_source
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness, take_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_kwait.client.session import ApiSession

POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}, {"name": "b"}]}}
NO_TAR = (
    "container main has no tar, which copies need; use an image that has it, or mount the files "
    "as a volume that a container with tar mounts too, and name that one"
)
EXTRACT = ("tar", "-xompf", "-", "-C", "/")
OUT_OF = "only relative links within it are copied"


class InterpretedSession:
    """A session whose commands run in one interpreted container."""

    def __init__(self) -> None:
        self.harness = ContainerHarness()
        self.commands: list[tuple[str, ...]] = []

    def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str | None,
        stdin: Iterable[bytes] | None,
        stdout: Callable[[bytes], object] | None,
        deadline: Deadline,
    ) -> ExecResult:
        self.commands.append(tuple(command))
        data = None if stdin is None else b"".join(stdin)
        session = self.harness.run(*command, stdin=data)
        written = take_output(session)
        if stdout is not None:
            stdout(written[1])
        code = session.output.code
        return ExecResult(0 if code is None else code, written[1], written[2])

    def get(self, *_: Any, **__: Any) -> dict[str, Any]:
        return POD


class AnsweringSession(InterpretedSession):
    """A session whose commands have one result, or raise it."""

    def __init__(self, result: ExecResult | Exception, archive: bytes = b"") -> None:
        self.result = result
        self.archive = archive
        self.commands = []

    def exec(self, *arguments: Any, **options: Any) -> ExecResult:
        for _ in options.get("stdin") or ():
            pass
        if isinstance(self.result, Exception):
            raise self.result
        if options.get("stdout") is not None:
            options["stdout"](self.archive)
        return self.result


def files_of(session: InterpretedSession, container: str | None = None) -> ContainerFiles:
    return ContainerFiles(cast("ApiSession", session), "ci-1", "web", container, Deadline.after(60))


@pytest.fixture
def session() -> InterpretedSession:
    return InterpretedSession()


@pytest.fixture
def files(session: InterpretedSession) -> ContainerFiles:
    return files_of(session)


def make_tree(folder: Path) -> Path:
    """A folder with an empty one, bytes of all values, a long name, modes and a link."""
    tree = folder / "tree"
    (tree / "empty").mkdir(parents=True)
    (tree / "deep" / ("n" * 120)).mkdir(parents=True)
    (tree / "deep" / ("n" * 120) / "bytes").write_bytes(bytes(range(256)) * 3000)
    (tree / "run.sh").write_text("echo ran")
    (tree / "run.sh").chmod(0o750)
    (tree / "none").write_bytes(b"")
    (tree / "deep" / "link").symlink_to("../run.sh")
    (tree / "deep").chmod(0o711)
    return tree


def describe(folder: Path) -> dict[str, tuple[int, object]]:
    """Modes and contents by path, targets of links."""
    return {
        path.relative_to(folder).as_posix(): (
            0 if path.is_symlink() else path.stat().st_mode & 0o777,
            str(path.readlink())
            if path.is_symlink()
            else (path.read_bytes() if path.is_file() else None),
        )
        for path in folder.rglob("*")
    }


def test_a_folder_comes_back_as_it_was(
    session: InterpretedSession, files: ContainerFiles, tmp_path: Path
) -> None:
    tree = make_tree(tmp_path)

    there = files.send(tree, "/srv/new/copy")
    back = files.receive(there, tmp_path / "out" / "back")

    assert there == "/srv/new/copy"
    assert back == tmp_path / "out" / "back"
    assert describe(back) == describe(tree)
    assert back.stat().st_mode == tree.stat().st_mode
    assert session.commands[1][-5:] == EXTRACT
    assert session.commands[2] == ("tar", "-cf", "-", "-C", "/srv/new", "./copy")


@pytest.mark.parametrize("target", ["/tmp", "/tmp/", "/new/"])
def test_an_existing_folder_gets_a_copy_in_it(
    files: ContainerFiles, tmp_path: Path, target: str
) -> None:
    source = tmp_path / "a.txt"
    source.write_text("hello")

    there = files.send(source, target)

    assert there == f"{target.rstrip('/')}/a.txt"
    (tmp_path / "in").mkdir()
    back = files.receive(there, tmp_path / "in")
    assert (back, back.read_text()) == (tmp_path / "in" / "a.txt", "hello")


def test_a_local_link_is_followed_under_its_own_name(
    files: ContainerFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v2").write_text("two")
    (tmp_path / "current").symlink_to("v2")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")

    assert files.send(tmp_path / "current", "/tmp/") == "/tmp/current"
    assert files.receive("/tmp/current", tmp_path / "copy").read_text() == "two"
    here = [files.send(Path(text), "/tmp/") for text in (".", "..", "../sub")]
    assert here == ["/tmp/sub", f"/tmp/{tmp_path.name}", "/tmp/sub"]


def test_a_file_replaces_another(files: ContainerFiles, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "b").symlink_to(tmp_path / "kept")
    files.send(tmp_path / "a", "/tmp/a")
    (tmp_path / "a").write_text("newer")
    files.send(tmp_path / "a", "/tmp/a")

    back = files.receive("/tmp/a", tmp_path / "b")

    assert (back.read_text(), back.is_symlink()) == ("newer", False)
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_source_that_is_a_link_is_followed(
    session: InterpretedSession, files: ContainerFiles, tmp_path: Path
) -> None:
    """The keys of a ConfigMap are links in its volume."""
    session.harness.sh("mkdir -p /c/..2026; echo 1 > /c/..2026/key; ln -s ..2026 /c/..data")
    session.harness.sh("ln -s ..data/key /c/key")

    back = files.receive("/c/key", tmp_path)

    assert (back, back.read_text()) == (tmp_path / "key", "1\n")
    assert describe(files.receive("/c", tmp_path / "all"))["key"] == (0, "..data/key")
    session.harness.sh("ln -s round /c/round")
    with pytest.raises(KwaitError) as caught:
        files.receive("/c/round", tmp_path / "round")
    assert str(caught.value) == "/c/round of pod ci-1/web leads through more than 10 links"


def test_the_whole_root(session: InterpretedSession, files: ContainerFiles, tmp_path: Path) -> None:
    """A folder without a name of its own."""
    session.harness.sh("mkdir -p /only; echo 1 > /only/a")

    assert (files.receive("/only/.", tmp_path / "copy") / "a").read_text() == "1\n"
    assert (files.receive("/only/", tmp_path) / "a").read_text() == "1\n"


def test_a_missing_source(files: ContainerFiles, tmp_path: Path) -> None:
    with pytest.raises(KwaitError) as caught:
        files.receive("/no", tmp_path / "no")

    assert str(caught.value) == (
        "/no of pod ci-1/web could not be copied: tar ended with exit code 1: "
        "tar: ./no: No such file or directory; tar: error exit delayed from previous errors"
    )
    assert not (tmp_path / "no").exists()


def test_a_missing_local_source(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        find_source("a.txt", [tmp_path, tmp_path / "x"])

    assert str(caught.value) == (
        f"source='a.txt' is not valid: there is no {tmp_path}/a.txt or {tmp_path}/x/a.txt"
    )


@pytest.mark.parametrize("link", ["/etc/passwd", "../..", "deep/../..", "x/../a"])
def test_a_local_link_that_leads_out(
    session: InterpretedSession, files: ContainerFiles, tmp_path: Path, link: str
) -> None:
    (tmp_path / "tree" / "d").mkdir(parents=True)
    (tmp_path / "tree" / "d" / "l").symlink_to(link)

    with pytest.raises(InvalidArgument) as caught:
        files.send(tmp_path / "tree", "/tmp/tree")

    where = tmp_path / "tree" / "d" / "l"
    assert str(caught.value) == (
        f"source='{tmp_path}/tree' is not valid: {where} is a link to {link}; {OUT_OF}"
    )
    assert [command[0] for command in session.commands] == ["test"]


def test_a_local_pipe(files: ContainerFiles, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InvalidArgument) as caught:
        files.send(tmp_path / "pipe", "/tmp/pipe")

    assert str(caught.value).endswith("/pipe is a device, pipe or socket, which cannot be copied")


def archive(*entries: tuple[str, bytes, str]) -> bytes:
    """An archive of entries, each with name, type and the target of the link or the contents."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, kind, value in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = kind, 0o755
            if kind == tarfile.REGTYPE:
                entry.size = len(value)
            else:
                entry.linkname = value
            made.addfile(entry, io.BytesIO(value.encode()))
    return buffer.getvalue()


FOLDER, FILE, LINK, HARD = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
HOSTILE: dict[str, tuple[list[tuple[str, bytes, str]], str]] = {
    "a name with ..": (
        [("./d", FOLDER, ""), ("./d/../../x", FILE, "x")],
        "its archive has the name './d/../../x', which leads out of it",
    ),
    "an absolute name": (
        [("./d", FOLDER, ""), ("/x", FILE, "x")],
        "its archive has the name '/x', which leads out of it",
    ),
    "another name": (
        [("./d", FOLDER, ""), ("./e", FILE, "x")],
        "its archive has the name './e', which leads out of it",
    ),
    "an absolute link": (
        [("./d", FOLDER, ""), ("./d/l", LINK, "/etc")],
        f"/d/l is a link to /etc; {OUT_OF}",
    ),
    "a link upwards": (
        [("./d", FOLDER, ""), ("./d/l", LINK, "../x")],
        f"/d/l is a link to ../x; {OUT_OF}",
    ),
    "a link upwards by another": (
        [("./d", FOLDER, ""), ("./d/l", LINK, "."), ("./d/m", LINK, "l/../x")],
        f"/d/m is a link to l/../x; {OUT_OF}",
    ),
    "a file behind a link": (
        [("./d", FOLDER, ""), ("./d/l", LINK, "."), ("./d/l/x", FILE, "x")],
        "/d/l/x lies behind a link",
    ),
    "a hard link out": (
        [("./d", FOLDER, ""), ("./d/h", HARD, "../../etc/passwd")],
        "its archive has the name '../../etc/passwd', which leads out of it",
    ),
    "a hard link to nothing": (
        [("./d", FOLDER, ""), ("./d/h", HARD, "./d/x")],
        "/d/h is a link to ./d/x, no file of it",
    ),
    "a pipe": (
        [("./d", FOLDER, ""), ("./d/p", tarfile.FIFOTYPE, "")],
        "/d/p is a device, pipe or socket, which cannot be copied",
    ),
    "a device": (
        [("./d", FOLDER, ""), ("./d/p", tarfile.CHRTYPE, "")],
        "/d/p is a device, pipe or socket, which cannot be copied",
    ),
}


@pytest.mark.parametrize(("entries", "problem"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_archive_is_refused_whole(
    tmp_path: Path, entries: list[tuple[str, bytes, str]], problem: str
) -> None:
    good = ("./d/good", FILE, "good")
    hostile = AnsweringSession(ExecResult(0, b"", b""), archive(good, *entries))

    with pytest.raises(KwaitError) as caught:
        files_of(hostile).receive("/d", tmp_path / "copy")

    assert str(caught.value) == f"/d could not be copied: {problem}"
    assert list(tmp_path.iterdir()) == []


def test_hard_links_become_files(tmp_path: Path) -> None:
    data = archive(("./d", FOLDER, ""), ("./d/a", FILE, "x"), ("./d/b", HARD, "./d/a"))

    copy = files_of(AnsweringSession(ExecResult(0, b"", b""), data)).receive("/d", tmp_path / "c")

    assert ((copy / "b").read_text(), (copy / "b").stat().st_nlink) == ("x", 1)


def test_a_link_that_was_there_before(tmp_path: Path) -> None:
    """What the archive has below it would be written elsewhere."""
    (tmp_path / "copy").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "copy" / "d").mkdir()
    (tmp_path / "copy" / "d" / "in").symlink_to(tmp_path / "elsewhere")
    data = archive(("./d", FOLDER, ""), ("./d/in", FOLDER, ""), ("./d/in/x", FILE, "x"))
    answering = AnsweringSession(ExecResult(0, b"", b""), data)

    with pytest.raises(KwaitError) as caught:
        files_of(answering).receive("/d", tmp_path / "copy")

    top = tmp_path / "copy" / "d"
    assert str(caught.value) == (
        f"{top}/in leads out of {top}, to {tmp_path}/elsewhere: remove the link"
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"x" * 1024, archive(("./d", FILE, "x" * 2000))[:900]])
def test_a_damaged_archive(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(KwaitError, match=r"could not be copied: its archive is (damaged|empty)"):
        files_of(AnsweringSession(ExecResult(0, b"", b""), data)).receive("/d", tmp_path / "copy")

    assert list(tmp_path.iterdir()) == []


GONE: list[ExecResult | Exception] = [
    ApiError(
        'error executing command in container: OCI runtime exec failed: exec: "tar": executable '
        "file not found in $PATH: unknown",
        status=500,
    ),
    ApiError("executable file `tar` not found in $PATH: No such file or directory", status=500),
    ExecResult(127, b"", b""),
    ExecResult(126, b"", b""),
]


@pytest.mark.parametrize("result", GONE, ids=["runc", "crun", "127", "126"])
def test_a_container_without_tar(tmp_path: Path, result: ExecResult | Exception) -> None:
    with pytest.raises(KwaitError) as caught:
        files_of(AnsweringSession(result)).receive("/d", tmp_path / "copy")

    assert str(caught.value) == f"/d of pod ci-1/web could not be copied: {NO_TAR}"


def test_a_container_without_test_and_tar(tmp_path: Path) -> None:
    gone = ApiError('exec: "test": executable file not found in $PATH', status=500)
    (tmp_path / "a").write_text("a")

    class Bare(AnsweringSession):
        def exec(self, *arguments: Any, **options: Any) -> ExecResult:
            self.result = gone if arguments[2][0] == "test" else GONE[0]
            return super().exec(*arguments, **options)

    with pytest.raises(KwaitError) as caught:
        files_of(Bare(gone), "b").send(tmp_path / "a", "/tmp/a")

    assert str(caught.value) == (
        "/tmp/a of container b of pod ci-1/web could not be copied: "
        + NO_TAR.replace("container main", "container b")
    )


@pytest.mark.parametrize(
    "result",
    [ApiError('exec: "sh": executable file not found in $PATH', status=500), *GONE[2:]],
    ids=["missing", "127", "126"],
)
def test_a_container_without_a_shell(tmp_path: Path, result: ExecResult | Exception) -> None:
    (tmp_path / "a").write_text("a")
    archives = []

    class WithoutShell(InterpretedSession):
        def exec(self, *arguments: Any, **options: Any) -> ExecResult:
            if arguments[2][0] != "sh":
                return super().exec(*arguments, **options)
            archives.append(b"".join(options["stdin"]))
            if isinstance(result, Exception):
                raise result
            return result

    session = WithoutShell()
    files_of(session).send(tmp_path / "a", "/tmp/a")

    assert session.commands[-1] == EXTRACT
    assert session.harness.sh("cat /tmp/a") == "a"
    assert len(archives) == 1


def test_another_refusal_of_the_shell_is_the_servers(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")

    with pytest.raises(ApiError, match="not found"):
        files_of(AnsweringSession(ApiError('pods "web" not found', status=404))).send(
            tmp_path / "a", "/tmp/"
        )


def test_input_that_a_failed_tar_leaves_is_read(tmp_path: Path) -> None:
    """Interpreted here; see e2e for real ones."""
    (tmp_path / "a").write_bytes(b"a" * 100_000)
    session = InterpretedSession()
    session.harness.sh("echo a > /file")

    with pytest.raises(KwaitError, match="tar ended with exit code 1: tar: "):
        files_of(session).send(tmp_path / "a", "/file/a")


def test_another_refusal_is_the_servers(tmp_path: Path) -> None:
    refused = ApiError('pods "web" not found', status=404)

    with pytest.raises(ApiError, match="not found"):
        files_of(AnsweringSession(refused)).receive("/d", tmp_path / "copy")


def test_a_log_that_grows_is_copied(tmp_path: Path) -> None:
    """GNU tar ends with 1 then, and its archive is whole."""
    grown = ExecResult(1, b"", b"tar: ./d: file changed as we read it\n")
    data = archive(("./d", FILE, "line"))

    copy = files_of(AnsweringSession(grown, data)).receive("/d", tmp_path / "copy")

    assert copy.read_text() == "line"


def test_a_file_that_becomes_shorter(
    session: InterpretedSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a"
    source.write_bytes(b"long")
    run = session.exec

    def shorten(*arguments: Any, **options: Any) -> ExecResult:
        source.write_bytes(b"lo")
        return run(*arguments, **{"stdin": None, "stdout": None, **options})

    monkeypatch.setattr(session, "exec", shorten)
    files = files_of(session)
    monkeypatch.setattr(files, "_is_folder", lambda path: False)

    with pytest.raises(KwaitError) as caught:
        files.send(source, "/tmp/a")

    assert str(caught.value) == f"{source} became shorter while it was copied"

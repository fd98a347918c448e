"""Calls with paths have the same answers where they are intercepted as in namespaces."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.simulator.runtimes.processes import file_answers
from integration.simulator.runtimes.processes.programs import PYTHON, Programs
from pytest_kwait.simulator.runtimes.processes.runtime import Exit, Mount

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.simulator.runtimes.processes.programs import Scenario
    from pytest_kwait.simulator.runtimes.processes.runtime import Isolation

    Run = Callable[[Scenario], None]

_CODE = Path(file_answers.__file__).read_text(encoding="utf-8")

# Python that each program executes; the value of each expression is an answer. The program has a
# volume at /data, another one at /data/inner, a read-only one at /fixed, and a file at /single.
_TABLES = {
    "lengths": """
for folder in ("/data/", "/tmp/", image + "/"):
    write(folder + "name")
    for path in [make_path(folder, "name", length) for length in (4095, 4096, 4097, 5000)]:
        read(path)
        os.stat(path).st_size
        os.lstat(path).st_size
        os.chmod(path, 0o600)
        os.truncate(path, 1)
        os.rename(path, path)
        os.mkdir(path)
        os.rmdir(path)
        os.chdir(path)
        watch(path, lambda: None)
        os.execv(path, ["x"])
        os.listxattr(path)
        os.utime(path)
        os.readlink(path)
        os.access(path, os.R_OK)
        os.statvfs(path).f_bsize > 0
        os.symlink("x", path)
        os.link(path, path)
        open_close(path, os.O_PATH)
    os.symlink("x" * 4095, folder + "long")
    os.symlink("x" * 4096, folder + "more")
    read(folder + "long")
    write(folder + "n" * 255)
    write(folder + "n" * 256)
    os.mkdir(folder + "n" * 256)
    len(os.listdir(folder)) > 2
""",
    "links": """
for number in range(42):
    os.symlink(f"chain-{number - 1}" if number else "file", f"/data/chain-{number}")
os.symlink("/etc/hostname", "/data/absolute")
os.symlink("../etc/hostname", "/data/up")
os.symlink("/data/loop", "/data/loop")
os.symlink("second", "/data/first")
os.symlink("first", "/data/second")
os.symlink("missing", "/data/dangling")
os.symlink("/data/inner", "/data/to-inner")
os.symlink(".", "/data/self")
for name in "absolute up loop first dangling chain-38 chain-39 chain-40".split():
    read(f"/data/{name}")
    open_close(f"/data/{name}", os.O_NOFOLLOW)
    os.readlink(f"/data/{name}")
    oct(os.lstat(f"/data/{name}").st_mode)
open_close("/data/absolute", os.O_PATH | os.O_NOFOLLOW)
open_close("/data/to-inner/", os.O_NOFOLLOW)
open_close("/data/to-inner/file", os.O_NOFOLLOW)
read("/data/" + "self/" * 39 + "file")
read("/data/" + "self/" * 41 + "file")
write("/data/dangling", "made")
read("/data/missing")
open_close("/data/up", os.O_CREAT | os.O_EXCL)
os.mkdir("/data/dangling")
os.mkdir("/data/to-inner/")
os.chmod("/data/absolute", 0o640)
oct(os.stat("/etc/hostname").st_mode)
os.lchown("/data/first", 12, 34)
(os.lstat("/data/first").st_uid, os.lstat("/data/first").st_gid)
os.unlink("/data/to-inner")
os.unlink("/data/self/")
os.rmdir("/data/self")
os.rename("/data/self/", "/data/other")
os.listdir("/data/../data/inner/../inner")
os.path.samefile("/../../data", "/data")
read("/data/../etc/hostname")
read("/data/file/../file")
read("/data/nothing/../file")
os.listdir("/data/self/../data/inner")
""",
    "openat2": """
for resolve in (0, NO_SYMLINKS, NO_MAGICLINKS, BENEATH, IN_ROOT, NO_XDEV):
    for path in "folder/file inside outside absolute .. folder/.. missing folder/file/x".split():
        open2("/data/tree", path, resolve)
    open2("/data/tree", "../tree/inside", resolve)
    open2("/data/tree", "/data/tree/inside", resolve)
    open2("/data/tree", "/folder/file", resolve)
    open2("/data", "inner", resolve)
    open2("/data", "inner/../file", resolve)
    open2("/proc/self", "cwd", resolve)
open2("/data/tree", "new", BENEATH, os.O_CREAT | os.O_RDWR)
open2("/data/tree", "../n", BENEATH, os.O_CREAT | os.O_RDWR)
open2("/data/tree", "inside", BENEATH | IN_ROOT)
open2("/data/tree", "inside", 0x1000)
open2("/data/tree", "inside", 0, size=16)
open2("/data/tree", "inside", 0, size=64)
open2("/fixed", "file", 0, os.O_WRONLY)
open2("/fixed", "file", NO_XDEV, os.O_PATH)
""",
    "renames": """
for folder in ("/data", "/tmp", image):
    one, two = f"{folder}/kwait-one", f"{folder}/kwait-two"
    tree, other = f"{folder}/kwait-folder-one", f"{folder}/kwait-folder-two"
    write(one, "one")
    write(two, "two")
    os.mkdir(tree)
    os.mkdir(other)
    write(f"{tree}/in")
    rename2(one, two, NOREPLACE)
    rename2(one, one + "x", NOREPLACE)
    rename2(one, two, EXCHANGE)
    os.rename(one + "x", one)
    rename2(one, two, EXCHANGE)
    (read(one), read(two))
    rename2(one, tree, EXCHANGE)
    (os.listdir(one), read(tree))
    rename2(one, tree, EXCHANGE)
    rename2(one, two, EXCHANGE | NOREPLACE)
    rename2(one, two, 0x100)
    os.rename(one, tree)
    os.rename(tree, one)
    os.rename(other, tree)
    os.rename(tree, f"{tree}/in-itself")
    os.rename(one, one)
    os.link(one, one + "-link")
    os.rename(one, one + "-link")
    os.path.exists(one)
    os.rename(one + "/", one + "y")
    os.rename(other + "/", other + "y/")
    os.rename(other, other + "z")
    os.rename(f"{tree}/.", other)
    os.rename(f"{tree}/..", other)
    os.rename(one, f"{tree}/..")
    os.rename(f"{one}/x", f"{one}/y")
    for target in ("/data/inner/x", "/fixed/x"):
        os.rename(one, target)
        os.link(one, target)
    shutil.rmtree(tree)
    os.rmdir(other + "y")
os.rename("/data/inner", "/tmp/moved")
os.rename("/data/inner", "/data/moved")
os.rename("/data/tree", "/data/inner")
os.rename("/single", "/other")
os.rmdir("/data/inner")
os.unlink("/data/inner")
os.rmdir("/data")
os.unlink("/single")
os.rmdir("/single")
os.rename("/data", "/moved")
os.rename("/data/file", "/tmp/file")
os.link("/data/file", "/tmp/file")
os.link("/data/file", "/data/inner/file-link")
os.rename("/data/file", "/data/inner/file-moved")
""",
    "read-only mounts": """
file, folder = "/fixed/file", "/fixed/folder"
write(file)
write("/fixed/new")
open_close(file, os.O_APPEND | os.O_WRONLY)
open_close(file, os.O_RDWR)
open_close(file, os.O_TRUNC)
open_close(file, os.O_CREAT)
open_close(file, os.O_CREAT | os.O_EXCL)
open_close("/fixed", os.O_TMPFILE | os.O_WRONLY)
os.mkdir("/fixed/new")
os.mkdir(folder)
os.rmdir(folder)
os.rmdir("/fixed/missing")
os.unlink(file)
os.unlink("/fixed/missing")
os.rename(file, "/fixed/other")
os.rename("/fixed/missing", "/fixed/other")
os.link(file, "/fixed/other")
os.symlink("x", "/fixed/other")
os.mkfifo("/fixed/other")
os.chmod(file, 0o600)
os.chown(file, 1, 1)
os.utime(file)
os.truncate(file, 0)
os.truncate(folder, 0)
os.setxattr(file, "user.x", b"x")
os.removexattr(file, "user.x")
os.access(file, os.W_OK)
call("faccessat2", AT_FDCWD, file.encode(), os.W_OK, 0)
bool(os.statvfs(file).f_flag & os.ST_RDONLY)
bool(os.statvfs("/data").f_flag & os.ST_RDONLY)
os.chmod(os.open(file, os.O_RDONLY), 0o600)
os.utime(os.open(file, os.O_RDONLY))
oct(os.stat(file).st_mode)
read(file)
""",
    "changes": """
omitted = struct.pack("=qqqq", 5, 0, 0, (1 << 30) - 2)
now = struct.pack("=qqqq", 0, (1 << 30) - 1, 7, 0)
bad = struct.pack("=qqqq", 0, 2_000_000_000, 0, 0)
for folder in ("/data", "/tmp", image):
    file, missing = f"{folder}/kwait-file", f"{folder}/kwait-missing"
    link = f"{folder}/kwait-link".encode()
    write(file, "0123456789")
    os.truncate(file, 4)
    read(file)
    os.truncate(file, 8)
    os.stat(file).st_size
    call("truncate", file.encode(), -1)
    os.truncate(folder, 0)
    os.truncate(missing, 0)
    os.utime(file, ns=(1_000_000_001, 2_000_000_002))
    (os.stat(file).st_atime_ns, os.stat(file).st_mtime_ns)
    call("utimensat", AT_FDCWD, file.encode(), omitted, 0)
    (int(os.stat(file).st_atime), os.stat(file).st_mtime_ns)
    call("utimensat", AT_FDCWD, file.encode(), now, 0)
    (os.stat(file).st_atime > 1e9, os.stat(file).st_mtime)
    call("utimensat", AT_FDCWD, file.encode(), bad, 0)
    os.utime(missing)
    os.chmod(missing, 0o600)
    os.chmod(file, 0o4751)
    oct(os.stat(file).st_mode)
    os.chown(file, 5, 6)
    os.stat(file)[4:6]
    oct(os.stat(file).st_mode)
    os.symlink(file, link)
    call("fchmodat2", AT_FDCWD, link, 0o600, NOFOLLOW)
    os.utime(link, (3, 3), follow_symlinks=False)
    (os.lstat(link).st_mtime, os.stat(file).st_mtime)
    os.setxattr(file, "user.one", b"1")
    os.setxattr(file, "user.one", b"2", os.XATTR_CREATE)
    os.setxattr(file, "user.no", b"2", os.XATTR_REPLACE)
    os.getxattr(file, "user.one")
    os.listxattr(file)
    os.removexattr(file, "user.one")
    os.getxattr(file, "user.one")
    os.getxattr(missing, "user.one")
    os.setxattr(link, "user.x", b"", follow_symlinks=False)
    os.chmod(file, 0o600)
    os.access(file, os.X_OK)
    call("faccessat2", AT_FDCWD, file.encode(), 8, 0)
    write(f"{file}/x")
    read(f"{file}/")
    open_close(missing + "/", os.O_CREAT)
    open_close(folder, os.O_WRONLY)
    open_close(folder, os.O_CREAT)
    open_close(file, os.O_DIRECTORY)
    os.stat("")
    os.unlink(folder)
    os.makedirs(f"{folder}/kwait-a/b/c")
    os.mkdir(f"{folder}/kwait-a/b")
    os.rmdir(f"{folder}/kwait-a")
    os.rmdir(f"{folder}/kwait-a/b/.")
    os.rmdir(f"{folder}/kwait-a/b/..")
    os.rmdir(file)
    shutil.rmtree(f"{folder}/kwait-a")
    os.path.exists(f"{folder}/kwait-a")
    os.umask(0o027)
    os.mkdir(f"{folder}/kwait-u")
    oct(os.stat(f"{folder}/kwait-u").st_mode)
    os.umask(0o022)
    os.mkfifo(missing)
    oct(os.stat(missing).st_mode)
    fcntl.flock(os.open(file, os.O_RDONLY), fcntl.LOCK_EX)
""",
    "descriptors": """
for folder in ("/data", "/tmp", image, "/data/inner"):
    base = f"{folder}/kwait-base"
    os.makedirs(f"{base}/deep/er")
    write(f"{base}/deep/file", "in deep")
    fd = os.open(f"{base}/deep", os.O_RDONLY)
    os.fchdir(fd)
    os.getcwd()
    read("file")
    sorted(os.listdir(".."))
    os.stat("file", dir_fd=fd).st_size
    open_close("../deep/file", os.O_RDONLY, dir_fd=fd)
    open_close("new", os.O_CREAT | os.O_RDWR, dir_fd=fd)
    os.mkdir("more", dir_fd=fd)
    sorted(os.listdir(fd))
    os.readlink(f"/proc/self/fd/{fd}")
    os.readlink("/proc/self/cwd")
    read(f"/proc/self/fd/{fd}/file")
    read(f"/dev/fd/{fd}/file")
    file = os.open("file", os.O_RDWR)
    os.stat("x", dir_fd=file)
    os.stat("x", dir_fd=999)
    os.rename(base, base + "-moved")
    os.getcwd()
    read("file")
    os.rename(base + "-moved", base)
    os.unlink("file")
    os.readlink(f"/proc/self/fd/{file}")
    os.read(file, 10)
    os.write(file, b"more")
    os.fchmod(file, 0o600)
    os.fstat(file).st_nlink
    os.utime(file, (1, 1))
    os.fstat(file).st_mtime
    read(f"/proc/self/fd/{file}")
    write("file", "new")
    os.fstat(file).st_size
    temporary = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(temporary, b"temporary")
    path = f"/proc/self/fd/{temporary}".encode()
    call("linkat", AT_FDCWD, path, AT_FDCWD, b"named", SYMLINK_FOLLOW)
    read("named")
    os.chdir("/")
    shutil.rmtree(base)
    os.fchdir(fd)
    os.getcwd()
    write("x")
    oct(os.stat(".").st_mode)
    sorted(os.listdir("."))
    os.stat("missing")
    os.chdir("/")
    os.close(fd)
    os.close(file)
    os.close(temporary)
""",
    "listings": """
os.mkdir(f"{image}/kwait-passwd") if os.getuid() else None
before = set(os.listdir(image))
name = "kwait-passwd" if os.getuid() else "passwd"
(os.rmdir if os.getuid() else os.unlink)(f"{image}/{name}")
os.mkdir(f"{image}/kwait-new")
sorted(set(os.listdir(image)) ^ before)
read(f"{image}/{name}")
write(f"{image}/{name}", "new")
read(f"{image}/{name}")
many = [f"many-{number:04}-{'x' * 60}" for number in range(200)]
[write(f"/data/{one}") for one in many].count("written")
[write(f"{image}/kwait-new/{one}") for one in many].count("written")
for size in (1024, 4096, 32768):
    list_all("/data", size)
    list_all(f"{image}/kwait-new", size)
    list_all("/usr/bin", size).split()[2]
list_all("/data", 16)
sorted({"data", "fixed", "single"} & set(os.listdir("/")))
"inner" in os.listdir("/data")
sorted((e.name, e.is_dir(), e.is_file()) for e in os.scandir("/data") if len(e.name) < 9)
write(f"{tree}/kwait-file")
run(f"rm -r {tree} 2>/dev/null")
os.path.exists(tree)
run(f"mkdir -p {tree}/a/b 2>/dev/null")
len(os.listdir(tree))
run("cp -r /etc/profile.d /data/copied; diff -r /etc/profile.d /data/copied")
sum(len(files) for _, _, files in os.walk(f"{image}/kwait-new"))
os.stat("/data/tree").st_nlink
{e.name: e.inode() for e in os.scandir("/data")}["tree"] == os.stat("/data/tree").st_ino
""",
    "others": """
write("/data/script", "#!/bin/sh\\necho script $1\\n")
os.chmod("/data/script", 0o755)
run("cp $(which echo) /data/echo")
folder, program = os.open("/data", os.O_RDONLY), os.open("/data/echo", os.O_PATH)
execute_at(folder, b"echo", 0, "echo", "one")
execute_at(-1, b"/data/echo", 0, "echo", "two")
execute_at(program, b"", EMPTY_PATH, "echo", "three")
execute_at(folder, b"script", 0, "script", "four")
os.set_inheritable(folder, True)
execute_at(folder, b"script", 0, "script", "four")
execute_at(folder, b"missing", 0, "x")
execute_at(folder, b"inner", 0, "x")
os.symlink("echo", "/data/echo-link")
execute_at(folder, b"echo-link", NOFOLLOW, "x")
os.chmod("/data/echo", 0o600)
execute_at(folder, b"echo", 0, "x")
os.execv("", ["x"])
watch("/data", lambda: write("/data/watched"))
watch(image, lambda: write(f"{image}/kwait-watched"))
watch("/tmp", lambda: write("/tmp/watched"))
watch("/data/watched", lambda: write("/data/watched", "y"))
watch("/data", lambda: os.rename("/data/watched", "/data/watch"))
watch("/data/missing", lambda: None)
watch("/single", lambda: write("/single", "changed"))
read("/single")
call("fanotify_init", 0, 0)
os.statvfs("/data/nothing/here")
os.statvfs("/data").f_bsize > 0
os.pathconf("/data", "PC_NAME_MAX")
call("truncate", 8, 0)
os.mkdir(b"/data/\\xff\\xfe")
os.listdir(b"/data").count(b"\\xff\\xfe")
shutil.disk_usage("/data").total > 0
run("test -d $(mktemp -d)")
run("cd /data; tar cf - tree | tar xf - -C /tmp; ls /tmp/tree")
run("find /data/tree | sort")
run("find /tmp/tree -delete; ls /tmp/tree")
run("install -D -m 750 /data/script /tmp/i/n/s; stat -c %a /tmp/i/n/s")
run("cp -a /data/tree /var/tmp/copy; readlink /var/tmp/copy/inside")
os.path.realpath("/data/tree/inside")
""",
}
# What all of them find, and the folder of the image whose entries change.
_START = """
image = "/var/tmp" if os.getuid() else "/etc"
write("/data/file", "content")
os.makedirs("/data/tree/folder")
write("/data/tree/folder/file", "deep")
os.symlink("folder/file", "/data/tree/inside")
os.symlink("../file", "/data/tree/outside")
os.symlink("/folder/file", "/data/tree/absolute")
"""


def _list_answers(run: Run, folder: Path, code: str, config: dict[str, Any]) -> list[str]:
    """Return the answers to the calls of a program, in a pod with new volumes."""
    for name in ("data/inner", "inner", "fixed/folder"):
        (folder / name).mkdir(parents=True)
    for name in ("data", "inner"):
        (folder / name).chmod(0o777)
    (folder / "fixed" / "file").write_text("fixed")
    (folder / "single").write_text("single")
    (folder / "single").chmod(0o666)
    mounts = (
        Mount("/data", str(folder / "data")),
        Mount("/data/inner", str(folder / "inner")),
        Mount("/fixed", str(folder / "fixed"), read_only=True),
        Mount("/single", str(folder / "single")),
    )
    answers = []

    async def scenario(programs: Programs) -> None:
        programs.folder.chmod(0o711)
        sandbox = await programs.create_sandbox(files={"/etc/hostname": b"db-0\n"})
        program = programs.start(sandbox, PYTHON, "-c", _CODE, code, mounts=mounts, **config)
        assert await program.wait() == Exit(0), program.stderr
        answers.extend(program.stdout.splitlines())

    run(scenario)
    return answers


def _find_tree() -> str:
    """Return a folder of the machine that is deep, but has few entries."""
    for top in sorted(Path("/usr").glob("*/*")):
        walked = itertools.islice(os.walk(top), 60)
        folders = [(folder.count("/"), len(names)) for folder, _, names in walked]
        if 0 < len(folders) < 60 and max(folders)[0] > 7 and sum(each[1] for each in folders) < 200:
            return str(top)
    return "/etc/ssl"


@pytest.mark.parametrize("user", [0, 1000])
@pytest.mark.parametrize("section", _TABLES)
def test_answers_are_those_of_namespaces(
    run_isolated: Run,
    run_intercepted: Run,
    isolation: Isolation,
    open_folder: Path,
    section: str,
    user: int,
) -> None:
    if user and not isolation.any_user:
        pytest.skip("another user needs root")
    code = f"tree = {_find_tree()!r}" + _START + _TABLES[section]
    config: dict[str, Any] = {"user": user, "group": user}
    expected = _list_answers(run_isolated, open_folder / "namespaces", code, config)
    answers = _list_answers(run_intercepted, open_folder / "intercepted", code, config)
    assert answers == expected
    assert len(answers) > 20

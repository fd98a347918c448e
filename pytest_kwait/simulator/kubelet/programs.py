"""The programs a container can run: what they print, how long they take, how they end.

Only programs that test manifests use for timing, exit codes,
output and marker files are here; the rest of busybox is known by name and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

from pytest_kwait.simulator.kubelet.inputs import copy
from pytest_kwait.simulator.kubelet.processes import Pause, Pipe, Process, Surroundings, Write

__all__ = [
    "APPLETS",
    "FOREVER",
    "UNSIMULATED",
    "Applet",
    "is_busybox_program",
]


Applet = Callable[[Surroundings, list[str]], Process]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _out(text: str) -> Write:
    return Write(1, text.encode())


def _err(text: str) -> Write:
    return Write(2, text.encode())


def _seconds(text: str) -> float | None:
    """Return a duration as busybox reads it; None where it does not."""
    number, factor = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    if number in ("inf", "infinity"):
        return math.inf
    if not number or not all(char.isdigit() or char == "." for char in number):
        return None
    try:
        return float(number) * factor
    except ValueError:
        return None


def sleep(_: Surroundings, args: list[str]) -> Process:
    """Pause for the sum of the arguments."""
    if not args:
        yield _err("BusyBox: usage: sleep [N]...\n")
        return 1
    total = 0.0
    for arg in args:
        seconds = _seconds(arg)
        if seconds is None:
            yield _err(f"sleep: invalid number '{arg}'\n")
            return 1
        total += seconds
    yield Pause(total)
    return 0


def usleep(_: Surroundings, args: list[str]) -> Process:
    """Pause for so many microseconds."""
    yield Pause(float(args[0]) / 1e6 if args and args[0].isdigit() else 0.0)
    return 0


def true(_: Surroundings, __: list[str]) -> Process:
    """Succeed."""
    yield from ()
    return 0


def false(_: Surroundings, __: list[str]) -> Process:
    """Fail with 1."""
    yield from ()
    return 1


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a", "b": "\b", "0": "\0", '"': '"'}


def _unescape(text: str) -> str:
    chars: list[str] = []
    rest = iter(text)
    for char in rest:
        if char != "\\":
            chars.append(char)
            continue
        following = next(rest, "")
        chars.append(_ESCAPES.get(following, "\\" + following))
    return "".join(chars)


def echo(_: Surroundings, args: list[str]) -> Process:
    """Print the arguments; `-n` without newline, `-e` with escapes."""
    newline, escapes = "\n", False
    while args and args[0][:1] == "-" and args[0][1:] and set(args[0][1:]) <= set("neE"):
        newline = "" if "n" in args[0] else newline
        escapes = escapes or "e" in args[0]
        args = args[1:]
    text = " ".join(args)
    yield _out((_unescape(text) if escapes else text) + newline)
    return 0


def printf(_: Surroundings, args: list[str]) -> Process:
    """Print a format with `%s` and `%d`; the format is used again while arguments are left."""
    if not args:
        yield _err("sh: usage: printf FORMAT [ARGUMENT...]\n")
        return 2
    template, values = _unescape(args[0]), args[1:]
    printed: list[str] = []
    while True:
        used = 0
        pieces = template.replace("%%", "\0").split("%")
        printed.append(pieces[0])
        for piece in pieces[1:]:
            value = values[used] if used < len(values) else ""
            printed.append((value or "0" if piece[:1] == "d" else value) + piece[1:])
            used += 1
        values = values[used:]
        if not used or not values:
            break
    yield _out("".join(printed).replace("\0", "%"))
    return 0


def cat(around: Surroundings, args: list[str]) -> Process:
    """Print files, or what stands or comes at stdin."""
    code = 0
    for name in args or ["-"]:
        content = around.files.get(name)
        if name == "-":
            if isinstance(around.stdin, Pipe):
                yield from copy(around.stdin)
                continue
            content = around.stdin
        if content is None:
            yield _err(f"cat: can't open '{name}': No such file or directory\n")
            code = 1
        elif content:
            yield Write(1, content)
    return code


def mkdir(around: Surroundings, args: list[str]) -> Process:
    """Make folders; `-p` is content with one that is there."""
    flags = "".join(arg[1:] for arg in args if arg.startswith("-"))
    code = 0
    for name in (arg for arg in args if not arg.startswith("-")):
        if "p" not in flags and (name in around.files or _is_directory(around, name)):
            yield _err(f"mkdir: can't create directory '{name}': File exists\n")
            code = 1
        else:
            around.files.setdefault(name.rstrip("/") + "/", b"")
    return code


def touch(around: Surroundings, args: list[str]) -> Process:
    """Make files that are not there."""
    for name in args:
        if not name.startswith("-"):
            around.files.setdefault(name, b"")
    yield from ()
    return 0


def rm(around: Surroundings, args: list[str]) -> Process:
    """Remove files; with `-r` what is under them, with `-f` silently what is not there."""
    flags = "".join(arg[1:] for arg in args if arg.startswith("-"))
    code = 0
    for name in (arg for arg in args if not arg.startswith("-")):
        under = name.rstrip("/") + "/"
        gone = [
            path
            for path in around.files
            if path == name or ("r" in flags and path.startswith(under))
        ]
        for path in gone:
            del around.files[path]
        if not gone and "f" not in flags:
            yield _err(f"rm: can't remove '{name}': No such file or directory\n")
            code = 1
    return code


def ls(around: Surroundings, args: list[str]) -> Process:
    """List the files that were made, by name."""
    names = [arg for arg in args if not arg.startswith("-")] or ["."]
    code = 0
    for name in names:
        under = name.rstrip("/") + "/" if name != "." else ""
        if name in around.files:
            yield _out(name + "\n")
            continue
        found = sorted({p[len(under) :].split("/")[0] for p in around.files if p.startswith(under)})
        if not found and name not in (".", "/", "/tmp"):  # noqa: S108 - a path of the container
            yield _err(f"ls: {name}: No such file or directory\n")
            code = 1
        for entry in found:
            if entry:
                yield _out(entry + "\n")
    return code


def test(around: Surroundings, args: list[str]) -> Process:
    """`-f -e -s -d -r -x -n -z`, `= != -eq -ne -lt -le -gt -ge`, with `!`."""
    yield from ()
    if args and args[0] == "!":
        inner = yield from test(around, args[1:])
        return 1 - inner if inner in (0, 1) else inner
    match args:
        case []:
            return 1
        case [text]:
            return int(not text)
        case ["-n", text]:
            return int(not text)
        case ["-z", text]:
            return int(bool(text))
        case [("-f" | "-e" | "-r" | "-x" | "-w"), name]:
            return int(name not in around.files and not _is_directory(around, name))
        case ["-d", name]:
            return int(not _is_directory(around, name))
        case ["-s", name]:
            return int(not around.files.get(name))
        case [left, "=" | "==", right]:
            return int(left != right)
        case [left, "!=", right]:
            return int(left == right)
        case [left, ("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") as operator, right]:
            try:
                difference = int(left) - int(right)
            except ValueError:
                bad = left if not left.lstrip("-").isdigit() else right
                yield _err(f"sh: {bad}: bad number\n")
                return 2
            holds = {
                "-eq": difference == 0, "-ne": difference != 0, "-lt": difference < 0,
                "-le": difference <= 0, "-gt": difference > 0, "-ge": difference >= 0,
            }  # fmt: skip
            return int(not holds[operator])
    yield _err(f"sh: {args[1]}: unknown operand\n")
    return 2


def _is_directory(around: Surroundings, name: str) -> bool:
    under = name.rstrip("/") + "/"
    return under in ("/", "/tmp/") or any(  # noqa: S108 - a path of the container
        path.startswith(under) for path in around.files
    )


def bracket(around: Surroundings, args: list[str]) -> Process:
    """`[ … ]`."""
    if args[-1:] != ["]"]:
        yield _err("sh: missing ]\n")
        return 2
    return (yield from test(around, args[:-1]))


def date(around: Surroundings, args: list[str]) -> Process:
    """Print the time, UTC; `+%s` and other strftime formats."""
    moment = datetime.fromtimestamp(around.now(), UTC)
    pattern = next((arg[1:] for arg in args if arg.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    yield _out(moment.strftime(pattern.replace("%s", str(int(around.now())))) + "\n")
    return 0


def env(around: Surroundings, args: list[str]) -> Process:
    """All variables, or the values of the named ones."""
    if not args:
        yield _out("".join(f"{name}={value}\n" for name, value in around.env.items()))
        return 0
    code = 0
    for name in args:
        if name in around.env:
            yield _out(around.env[name] + "\n")
        else:
            code = 1
    return code


def hostname(around: Surroundings, _: list[str]) -> Process:
    """Print the pod's host name."""
    yield _out(around.hostname + "\n")
    return 0


def seq(_: Surroundings, args: list[str]) -> Process:
    """Print the numbers from first (1) to last."""
    if not args or not all(arg.lstrip("-").isdigit() for arg in args):
        yield _err("BusyBox: usage: seq [FIRST [INC]] LAST\n")
        return 1
    numbers = [int(arg) for arg in args]
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) > 2 else 1
    for number in range(first, numbers[-1] + (1 if step > 0 else -1), step or 1):
        yield _out(f"{number}\n")
    return 0


def whoami(_: Surroundings, __: list[str]) -> Process:
    """Print root."""
    yield _out("root\n")
    return 0


def pwd(_: Surroundings, __: list[str]) -> Process:
    """Print the root folder."""
    yield _out("/\n")
    return 0


def tail(around: Surroundings, args: list[str]) -> Process:
    """Print the last ten lines; with `-f`, never end then."""
    names = [arg for arg in args if not arg.startswith("-")]
    for name in names:
        for line in around.files.get(name, b"").splitlines(keepends=True)[-10:]:
            yield Write(1, line)
    if any(arg in ("-f", "-F") for arg in args):
        yield Pause(math.inf)
    return 0


def forever(_: Surroundings, __: list[str]) -> Process:
    """Serve without end."""
    yield Pause(math.inf)
    return 0


APPLETS: dict[str, Applet] = {
    "[": bracket, "cat": cat, "date": date, "echo": echo, "env": env, "false": false,
    "hostname": hostname, "ls": ls, "mkdir": mkdir, "printenv": env, "printf": printf, "pwd": pwd,
    "rm": rm, "seq": seq, "sleep": sleep, "sync": true, "tail": tail, "test": test, "touch": touch,
    "true": true, "usleep": usleep, "whoami": whoami,
}  # fmt: skip

# Servers and displays: they run until they are killed.
FOREVER = frozenset(
    {"crond", "ftpd", "inetd", "ntpd", "ping", "syslogd", "telnetd", "top", "watch"}
)
APPLETS.update(dict.fromkeys(FOREVER, forever))

# Programs that `launching` knows.
ELSEWHERE = frozenset({"httpd", "nc", "tar"})

# Programs of the busybox image that are known but do nothing here.
UNSIMULATED = (
    frozenset(
        """
    [[ adjtimex ar arch arp arping ash awk base64 basename bc blkid bunzip2 busybox bzcat bzip2
    cal chattr chgrp chmod chown chpasswd chroot cksum clear cmp comm cp cpio crontab cut dd
    deluser df diff dirname dmesg dnsdomainname dos2unix du ed egrep expand expr factor fallocate
    fdisk fgrep find flock fold free fsck fuser getopt getty grep groups gunzip gzip halt hd head
    hexdump hostid id ifconfig ifdown ifup install ionice iostat ip ipcalc kill killall less link
    ln logger login logname losetup lsattr lsof lspci lsusb lzcat lzma makemime md5sum mdev mesg
    microcom mkfifo mknod mkpasswd mktemp modinfo modprobe more mount mountpoint mpstat mv nameif
    netstat nice nl nohup nologin nproc nsenter nslookup od passwd paste patch pgrep pidof ping6
    pipe_progress pkill pmap popmaildir poweroff ps pscan pstree pwdx rdate readlink realpath
    reboot renice reset resize rev rmdir rmmod route run-parts rx script sed sendmail setpriv
    setsid sh sha1sum sha256sum sha3sum sha512sum shred shuf sort split start-stop-daemon stat
    strings stty su sulogin sum switch_root sysctl tac tar taskset tc tee telnet tftp time timeout
    tr traceroute truncate tty ttysize udhcpc umount uname unexpand uniq unlink unlzma unxz unzip
    uptime users uudecode uuencode vi vlock w wc wget which who xargs xxd xz xzcat yes zcat
    """.split()  # noqa: SIM905 - a list of this length reads better as text
    )
    - set(APPLETS)
    - ELSEWHERE
)


def is_busybox_program(name: str) -> bool:
    """Whether the busybox image has a program of this name, with or without a path before it."""
    folder, _, program = name.rpartition("/")
    return folder in ("", "/bin", "/sbin", "/usr/bin", "/usr/sbin") and (
        program in APPLETS or program in UNSIMULATED or program in ELSEWHERE
    )

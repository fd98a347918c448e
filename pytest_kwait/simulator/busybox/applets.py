"""The applets of busybox, started by name, and the root file system that contains them.

An applet's module is imported on first use. Other applets of busybox fail with the message that
they are not simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from pytest_kwait.simulator.busybox.libbb import (
    NOT_SIMULATED,
    TOO_DEEP,
    UsageError,
    find_longest_number,
    write_error,
)
from pytest_kwait.simulator.busybox.os.files import (
    Device,
    Directory,
    File,
    FileSystemError,
    Inode,
    Symlink,
)
from pytest_kwait.simulator.busybox.os.syscalls import (
    Process,
    ProcessContext,
    ProcessWriteError,
    Write,
)

Applet = Callable[[ProcessContext, list[str]], Process]

_APPLET_MODULES = {
    "tar": "tar",
    "findutils": "egrep fgrep grep xargs",
    "fileutils": (
        "chmod chown cp du find ln ls mkdir mktemp mount mv readlink rm rmdir stat touch"
    ),
    "inetutils": "httpd ip nslookup wget",
    "shellutils": (
        "basename clear date dirname echo env false hostname id nproc printenv printf pwd seq sleep"
        " true uname usleep whoami yes"
    ),
    "procps": "kill nice nohup pidof ps setsid sysctl time timeout",
    "awk": "awk",
    "sed": "sed",
    "test_expr": "expr test",
    "textutils": (
        "base64 cat cut dd head hexdump md5sum rev sha1sum sha256sum sha512sum sort tac tail tee tr"
        " uniq wc"
    ),
}

# Servers and displays, which run until they are killed.
ENDLESS_APPLETS = frozenset(
    {"crond", "ftpd", "inetd", "ntpd", "ping", "syslogd", "telnetd", "top", "watch"}
)

APPLETS: dict[str, str] = {
    **{
        name: f"programs.{module}"
        for module, names in _APPLET_MODULES.items()
        for name in names.split()
    },
    **dict.fromkeys(ENDLESS_APPLETS, "programs.shellutils:forever"),
    "[": "programs.test_expr:bracket",
    "[[": "programs.test_expr:double_bracket",
    "ash": "shell.shell:sh",
    "nc": "programs.inetutils:netcat",
    "sh": "shell.shell:sh",
    "sync": "programs.fileutils",
    "which": "programs.procps:which",
}
"""The module of each applet, and its function after `:` where that has another name."""

# Applets of busybox that are not simulated.
UNSIMULATED = frozenset(
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
) - set(APPLETS)
SHELLS = frozenset({"ash", "sh"})

_ETC_PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:\n"
_ETC_GROUP = b"root:x:0:\nnobody:x:65534:\n"
_program_files: dict[str, Inode] = {}


def is_busybox_program(name: str) -> bool:
    """Return whether the busybox image has a program of this name or path."""
    folder, _, program = name.rpartition("/")
    return folder in ("", "/bin", "/sbin", "/usr/bin", "/usr/sbin") and (
        program in APPLETS or program in UNSIMULATED
    )


def load_applet(name: str) -> Applet | None:
    """Return the function of an applet; None if it is not simulated."""
    where = APPLETS.get(name)
    if where is None:
        return None
    module, _, function = where.partition(":")
    applet: Applet = getattr(
        import_module(f"pytest_kwait.simulator.busybox.{module}"), function or name
    )
    return applet


def find_exec_error(context: ProcessContext, program: str) -> str:
    """Return why a program cannot be started, in the system's words; empty if it can."""
    if is_busybox_program(program):
        return ""
    if "/" not in program:
        return "executable file not found in $PATH"
    try:
        node = context.files.get_node(context.resolve_path(program))
    except FileSystemError as fault:
        return str(fault)
    if isinstance(node, Directory) or not isinstance(node, File) or not node.mode & 0o111:
        return "Permission denied"
    return ""


def has_program(context: ProcessContext, name: str) -> bool:
    """Return whether a name or path can be started."""
    return not find_exec_error(context, name)


def _make_shell_message(text: str) -> Write:
    return Write(2, f"sh: {text}\n".encode())


def run_program(
    context: ProcessContext,
    argv: list[str],
    format_message: Callable[[str], Write] = _make_shell_message,
) -> Process:
    """Run a program as a shell does; 127 if it does not exist."""
    program = argv[0]
    fault = find_exec_error(context, program)
    if fault:
        denied = fault == "Permission denied"
        yield format_message(f"{program}: {fault if denied else 'not found'}")
        return 126 if denied else 127
    name = program.rpartition("/")[2]
    if not is_busybox_program(program):
        return (yield from _run_file(context, argv, format_message))
    if name == "busybox" and len(argv) > 1:
        return (yield from run_program(context, argv[1:], format_message))
    applet = load_applet(name)
    if applet is None:
        known = name in UNSIMULATED
        yield write_error(f"{name}: {NOT_SIMULATED if known else 'not found'}")
        return 1
    if name in SHELLS:
        # A shell's messages begin with its name as given.
        return (yield from applet(context, argv))
    try:
        return (yield from applet(context, argv[1:]))
    except ProcessWriteError as error:
        yield write_error(f"{name}: write error: {error}")
        return 1
    except UsageError as usage:
        yield write_error(str(usage))
        return 1
    except FileSystemError as fault_of_a_file:
        yield write_error(f"{name}: {fault_of_a_file}")
        return 1
    except RecursionError:
        yield write_error(f"{name}: {TOO_DEEP}")
        return 1
    except (OverflowError, ValueError):
        yield write_error(f"{name}: invalid number '{find_longest_number(argv)}'")
        return 1


def _run_file(
    context: ProcessContext, argv: list[str], format_message: Callable[[str], Write]
) -> Process:
    """Run a script file with the interpreter of its first line."""
    content = context.files.read(context.resolve_path(argv[0])) or b""
    first = content.partition(b"\n")[0]
    program = ["/bin/sh"]
    if first.startswith(b"#!"):
        program = first[2:].decode(errors="surrogateescape").split(None, 1) or program
        if program[0].startswith("/usr/bin/env") and len(program) > 1:
            program = program[1].split()
    name = program[0].rpartition("/")[2]
    if name not in SHELLS and not is_busybox_program(program[0]):
        yield format_message(f"{argv[0]}: not found")
        return 127
    return (yield from run_program(context, [*program, *argv], format_message))


def _make_bin() -> dict[str, Inode]:
    """Return the programs; containers share them until they change their own."""
    if not _program_files:
        _program_files["busybox"] = File(b"\x7fELF", 0o755)
        for name in sorted({*APPLETS, *UNSIMULATED} - {"busybox"}):
            _program_files[name] = Symlink("busybox")
    return _program_files


def make_root(hostname: str, address: Callable[[], str]) -> Directory:
    """Return the root directory.

    Args:
        hostname: the pod's host name.
        address: returns the pod's address.
    """
    hosts = (
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost "
        "ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\n"
        f"fe00::2\tip6-allrouters\n{address()}\t{hostname}\n"
    )
    etc = Directory()
    etc.entries.update(
        group=File(_ETC_GROUP), hostname=File(f"{hostname}\n".encode()), hosts=File(hosts.encode()),
        passwd=File(_ETC_PASSWD),
    )  # fmt: skip
    devices = {
        "null": "null", "zero": "zero", "full": "full", "random": "random", "urandom": "random",
        "stdin": "fd0", "stdout": "fd1", "stderr": "fd2", "tty": "fd0",
    }  # fmt: skip
    dev = Directory()
    dev.entries.update({name: Device(kind) for name, kind in devices.items()})
    dev.entries["shm"] = Directory(mode=0o1777)
    dev.entries["fd"] = fds = Directory()
    fds.entries.update({str(number): Device(f"fd{number}") for number in range(3)})
    dev.entries["termination-log"] = File(mode=0o666)
    process_folder = Directory()
    process_folder.entries["fd"] = fds
    proc = Directory()
    proc.entries.update({"1": process_folder, "self": process_folder})
    var = Directory()
    run = Directory()
    var.entries.update(run=run)
    root = Directory()
    root.entries.update(
        bin=Directory(_make_bin()), dev=dev, etc=etc, home=Directory(), proc=proc,
        root=Directory(mode=0o700), sys=Directory(read_only=True), tmp=Directory(mode=0o1777),
        usr=Directory(), var=var,
    )  # fmt: skip
    return root

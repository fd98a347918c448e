"""The programs that a container can run, by their names, and where they are.

A program is loaded with the first container that runs it. The rest of busybox is known by name and
says that it is not simulated.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_kwait.simulator.busybox.os.syscalls import Process, ProcessContext

__all__ = ["APPLETS", "ENDLESS_APPLETS", "UNSIMULATED", "Applet", "is_busybox_program"]


Applet = Callable[[ProcessContext, list[str]], Process]

_APPLET_MODULES = {
    "archives": "tar",
    "programs_fields": "cut egrep fgrep grep tr xargs",
    "programs_files": "chmod chown cp ln mkdir mktemp mv readlink rm rmdir touch",
    "programs_listing": "du find ls stat",
    "programs_network": "nslookup wget",
    "programs_plain": (
        "basename clear date dirname echo env false hostname id nproc printenv printf pwd seq sleep"
        " true uname usleep whoami yes"
    ),
    "programs_processes": "kill nice nohup pidof ps setsid time timeout",
    "programs_sed": "sed",
    "programs_sorting": "sort uniq",
    "programs_test": "expr test",
    "programs_text": "cat head rev tac tail tee wc",
    "servers": "httpd",
}

APPLETS: dict[str, str] = {
    name: room for room, names in _APPLET_MODULES.items() for name in names.split()
} | {
    "[": "programs_test:bracket", "[[": "programs_test:double_bracket", "nc": "servers:netcat",
    "sync": "programs_plain:true", "which": "programs_processes:which",
    "base64": "programs_digests", "md5sum": "programs_digests", "sha1sum": "programs_digests",
    "sha256sum": "programs_digests", "sha512sum": "programs_digests", "dd": "programs_digests",
}  # fmt: skip
"""The module of a program, and the function in it where that has another name."""

# Servers and displays: they run until they are killed.
ENDLESS_APPLETS = frozenset(
    {"crond", "ftpd", "inetd", "ntpd", "ping", "syslogd", "telnetd", "top", "watch"}
)
APPLETS.update(dict.fromkeys(ENDLESS_APPLETS, "programs_plain:forever"))

# Programs of the busybox image that are known but do nothing here.
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


def is_busybox_program(name: str) -> bool:
    """Whether the busybox image has a program of this name, with or without a path before it."""
    folder, _, program = name.rpartition("/")
    return folder in ("", "/bin", "/sbin", "/usr/bin", "/usr/sbin") and (
        program in APPLETS or program in UNSIMULATED
    )

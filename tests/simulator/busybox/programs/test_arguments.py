"""Arguments that programs refuse, and times that `date` reads; recorded with busybox 1.35."""

from __future__ import annotations

import pytest

from pytest_kwait.simulator.image_reference import parse_image
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness


@pytest.fixture(scope="module")
def harness() -> ContainerHarness:
    return ContainerHarness()


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("basename -Q", "basename: unrecognized option: Q\n"),
        ("chown", "BusyBox: usage: chown [-RhLHPcvf]... USER[:[GRP]] FILE...\n"),
        ("chown root", "BusyBox: usage: chown [-RhLHPcvf]... USER[:[GRP]] FILE...\n"),
        ("mkdir", "BusyBox: usage: mkdir [-m MODE] [-p] DIRECTORY...\n"),
        ("mktemp x", "mktemp: (null): Invalid argument\n"),
        ("mktemp xXXXXX", "mktemp: (null): Invalid argument\n"),
        ("mktemp x y", "BusyBox: usage: mktemp [-dt] [-p DIR] [TEMPLATE]\n"),
        ("nproc -Q", "nproc: unrecognized option: Q\n"),
        ("readlink", "BusyBox: usage: readlink [-fnv] FILE\n"),
        ("readlink x y", "BusyBox: usage: readlink [-fnv] FILE\n"),
        ("rm", "BusyBox: usage: rm [-irf] FILE...\n"),
        ("rmdir", "BusyBox: usage: rmdir [-p] DIRECTORY...\n"),
        ("sync x", "sync: can't open 'x': No such file or directory\n"),
        ("touch", "BusyBox: usage: touch [-cham] [-d DATE] [-t DATE] [-r FILE] FILE...\n"),
        ("uname -a x", "BusyBox: usage: uname [-amnrspvio]\n"),
        ("which", "BusyBox: usage: which [-a] COMMAND...\n"),
        ("which nosuch", ""),
        ("whoami x", "BusyBox: usage: whoami\n"),
        ("date foo", "date: invalid date 'foo'\n"),
        ("date +%Y x", "date: invalid date 'x'\n"),
        ("date 12", "date: invalid date '12'\n"),
        ("date 13010000", "date: invalid date '13010000'\n"),
        ("date 0102030425x", "date: invalid date '0102030425x'\n"),
        ("date -d foo", "date: invalid date 'foo'\n"),
        ("date -d 13010000", "date: invalid date '13010000'\n"),
        ("date 1 2", "BusyBox: usage: date [OPTIONS] [+FMT] [[-s] TIME]\n"),
        ("date -d @0 x", "BusyBox: usage: date [OPTIONS] [+FMT] [[-s] TIME]\n"),
    ],
)
def test_wrong_arguments_are_refused(harness: ContainerHarness, command: str, text: str) -> None:
    assert harness.sh(f"{command} 2>&1; echo $?") == f"{text}1\n"


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("echo $long | grep -E '^(a+)+$'; echo $?", "1\n"),
        ("echo $long | grep -Ec '(a|a)*b|!'", "1\n"),
        ("echo $long | sed -E 's/^(a|aa)+$/x/' | wc -c", "82\n"),
        ("echo $long | sed -E 's/(a|aa)+/x/'", "x!\n"),
        ("echo $long | awk '/^(a+)+$/ { print 1 } { gsub(/(a*)*b/, 1); print length }'", "81\n"),
        ("expr $long : '\\(a*\\)*b'", "\n"),
        ("case $long in *a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b) ;; *) echo no; esac", "no\n"),
        ("x=${long##*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b}; echo ${#x}", "81\n"),
        ("x=${long//*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b/}; echo ${#x}", "81\n"),
        ("touch /tmp/$long; find /tmp -name '*a*a*a*a*a*a*a*a*a*a*a*a*a*b'; echo end", "end\n"),
    ],
)
def test_no_pattern_holds_the_cluster(harness: ContainerHarness, script: str, output: str) -> None:
    long = "a" * 80 + "!"
    assert harness.sh(f"long={long}; {script}") == output


@pytest.mark.parametrize("command", ["rm -f", "sync", "sync /tmp", "mktemp -u aXXXXXX", "nproc x"])
def test_arguments_that_may_be_missing(harness: ContainerHarness, command: str) -> None:
    assert harness.sh(f"{command} > /dev/null; echo $?") == "0\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("-d @0", "1970-01-01T00:00:00"),
        ("-d 12:30", "2026-01-01T12:30:00"),
        ("-d 12:30:05", "2026-01-01T12:30:05"),
        ("-d '2025-01-02 03:04'", "2025-01-02T03:04:00"),
        ("-d 07", "2026-01-01T00:07:00"),
        ("-d 0807", "2026-01-01T08:07:00"),
        ("-d 202503040506.07", "2025-03-04T05:06:07"),
        ("-d 7003040506", "2070-03-04T05:06:00"),
        ("-d 7703040506", "1977-03-04T05:06:00"),
    ],
)
def test_date_shows_a_given_time(harness: ContainerHarness, options: str, text: str) -> None:
    assert harness.sh(f"date {options} +%Y-%m-%dT%T 2>&1; echo $?") == f"{text}\n0\n"


@pytest.mark.parametrize(
    ("operand", "text"),
    [
        ("01020304", "2026-01-02T03:04:00"),
        ("010203042025", "2025-01-02T03:04:00"),
        ("0102030425.07", "2025-01-02T03:04:07"),
        ("12:30", "2026-01-01T12:30:00"),
        ("-s 2025-01-02", "2025-01-02T00:00:00"),
    ],
)
def test_date_does_not_set_the_time(harness: ContainerHarness, operand: str, text: str) -> None:
    refused = "date: can't set date: Operation not permitted"
    arguments = f"{operand} +%Y-%m-%dT%T" if operand.startswith("-") else f"+%Y-%m-%dT%T {operand}"
    assert harness.sh(f"date {arguments} 2>&1; echo $?") == f"{refused}\n{text}\n0\n"


def test_folders_of_other_images_are_created_on_write() -> None:
    script = (
        "echo a > /usr/share/nginx/html/a && mkdir /srv/x/y && cat /usr/share/nginx/html/a;"
        "cat /etc/nginx/none; echo $?"
    )
    other = ContainerHarness(image=parse_image("nginx:1.27"))
    assert other.sh(f"({script}) 2>&1") == (
        "a\ncat: can't open '/etc/nginx/none': No such file or directory\n1\n"
    )
    busybox = ContainerHarness()
    assert busybox.sh("(echo a > /usr/share/nginx/a) 2>&1") == (
        "sh: can't create /usr/share/nginx/a: nonexistent directory\n"
    )

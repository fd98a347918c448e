from __future__ import annotations

import os
import struct
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.executables import (
    Executable,
    read_executable,
    takes_first_argument,
)

if TYPE_CHECKING:
    from pathlib import Path


def _make_elf(*, kind: int = 3, count: int = 2) -> bytes:
    header = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q14xHH", 64, 56, count)
    other = struct.pack("<I52x", 1)
    loader = struct.pack("<I4xQ16xQ16x", kind, 5000, 11)
    return (header.ljust(64, b"\0") + other + loader).ljust(5000, b"\0") + b"/opt/ld.so\0more"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"#!/bin/sh\necho", Executable(b"/bin/sh")),
        (b"#! \t/usr/bin/env  -S a  b \t\n", Executable(b"/usr/bin/env -S a  b")),
        (b"#!" + b"x" * 300, Executable(b"x" * 254)),
        (b"#!\n", Executable()),
        (_make_elf(), Executable(loader=b"/opt/ld.so")),
        (_make_elf(kind=4), Executable()),
        (_make_elf(count=500), Executable(loader=b"/opt/ld.so")),
        (_make_elf(kind=4, count=500), Executable()),
        (_make_elf()[:50], Executable()),
        (b"\x7fELF\x01\x01", Executable()),
        (b"", Executable()),
    ],
)
def test_what_a_program_needs(tmp_path: Path, content: bytes, expected: Executable) -> None:
    (tmp_path / "program").write_bytes(content)
    assert read_executable(os.fsencode(tmp_path / "program")) == expected


def test_program_that_cannot_be_read(tmp_path: Path) -> None:
    assert read_executable(os.fsencode(tmp_path)) == Executable()
    assert read_executable(os.fsencode(tmp_path / "missing")) == Executable()


@pytest.mark.skipif(sys.platform != "linux", reason="its programs have another format")
def test_this_python_is_no_script() -> None:
    assert read_executable(os.fsencode(sys.executable)).line is None


def test_loader_with_the_option(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"\0--argv0\0")
    (tmp_path / "old").write_bytes(b"\0--preload\0")
    assert takes_first_argument(os.fsencode(tmp_path / "new"))
    assert not takes_first_argument(os.fsencode(tmp_path / "old"))
    assert not takes_first_argument(os.fsencode(tmp_path / "missing"))

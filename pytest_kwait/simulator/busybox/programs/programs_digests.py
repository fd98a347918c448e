"""Programs over bytes: digests, base64, `dd`."""

from __future__ import annotations

import base64 as codec
import hashlib
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import (
    UsageError,
    for_each_input,
    open_input,
    parse_options,
    read_whole,
    write_error,
    write_out,
)
from pytest_kwait.simulator.busybox.os.fds import OpenFile, open_path
from pytest_kwait.simulator.busybox.os.files import FileSystemError
from pytest_kwait.simulator.busybox.os.syscalls import Effect, Read, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.simulator.busybox.os.syscalls import Process, ProcessContext

_DD_UNITS = {"": 1, "c": 1, "w": 2, "b": 512, "k": 1024, "K": 1024, "M": 1 << 20, "G": 1 << 30}
_MAX_BLOCK = 1 << 16


def _make_digest_program(algorithm: str) -> Callable[[ProcessContext, list[str]], Process]:
    def run(around: ProcessContext, args: list[str]) -> Process:
        _, names = parse_options(f"{algorithm}sum", args, "", "", "csw")

        def act(name: str, number: int) -> Generator[Effect, None, bool | None]:
            digest = hashlib.new(algorithm, usedforsecurity=False)
            while True:
                read = Read(number)
                yield read
                if not read.data:
                    break
                digest.update(read.data)
            yield write_out(f"{digest.hexdigest()}  {name}\n")
            return None

        return (yield from for_each_input(around, f"{algorithm}sum", names, act))

    return run


md5sum, sha1sum = _make_digest_program("md5"), _make_digest_program("sha1")
sha256sum, sha512sum = _make_digest_program("sha256"), _make_digest_program("sha512")


def base64(around: ProcessContext, args: list[str]) -> Process:
    """Encode, or with `-d` decode; `-w` is the width of lines."""
    given, names = parse_options("base64", args, "d", "w")
    width = int(given.get("w") or 76)
    with (
        open_input(around, names[0] if names else "-") as number,
        around.tasks.account.hold() as hold,
    ):
        data = yield from read_whole(number, hold)
    if "d" in given:
        try:
            yield Write(1, codec.b64decode(data))
        except ValueError:
            yield write_error("base64: truncated input")
            return 1
        return 0
    text = codec.b64encode(data).decode()
    if not width:
        yield write_out(text)
        return 0
    lines = [text[start : start + width] for start in range(0, len(text), width)]
    yield write_out("".join(f"{line}\n" for line in lines))
    return 0


def _parse_dd_number(text: str) -> int:
    digits = text.rstrip("cwbkKMG")
    unit = text[len(digits) :].removesuffix("B")
    if not digits.isdigit() or unit not in _DD_UNITS:
        raise UsageError(f"dd: invalid number '{text}'")
    return int(digits) * _DD_UNITS[unit]


def dd(around: ProcessContext, args: list[str]) -> Process:
    """Copy blocks: `if= of= bs= count= skip=`."""
    given = {}
    for arg in args:
        name, separator, value = arg.partition("=")
        if not separator or name not in ("if", "of", "bs", "count", "skip", "status", "conv"):
            raise UsageError(f"dd: {arg}: not simulated by the embedded kubelet")
        given[name] = value
    size = _parse_dd_number(given.get("bs", "512"))
    left = _parse_dd_number(given["count"]) * size if "count" in given else 1 << 62
    skipped = _parse_dd_number(given.get("skip", "0")) * size
    blocks, total = 0, 0
    target: OpenFile | None = None
    try:
        if "of" in given:
            target = open_path(
                around.files, around.path(given["of"]), "w", around.tasks.account, around.now,
                around.fds,
            ).retain()  # fmt: skip
        # The block is what `dd` holds in memory.
        with (
            open_input(around, given.get("if", "-")) as number,
            around.tasks.account.hold() as hold,
        ):
            hold.to(size)
            while left > 0:
                read = Read(number, most=min(skipped or left, _MAX_BLOCK))
                yield read
                if not read.data:
                    break
                if skipped:
                    skipped -= len(read.data)
                    continue
                left -= len(read.data)
                total += len(read.data)
                if target is None:
                    yield Write(1, read.data)
                elif why := target.write(read.data):
                    yield write_error(f"dd: error writing '{given['of']}': {why}")
                    return 1
    except FileSystemError as fault:
        name = given.get("if", "") if target is not None or "of" not in given else given["of"]
        yield write_error(f"dd: can't open '{name}': {fault}")
        return 1
    finally:
        if target is not None:
            target.release()
    blocks, rest = divmod(total, size)
    if given.get("status") != "none":
        text = f"{blocks}+{int(bool(rest))}"
        yield write_error(f"{text} records in\n{text} records out")
    return 0

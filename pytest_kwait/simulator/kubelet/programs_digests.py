"""Programs over bytes: digests, base64, `dd`."""

from __future__ import annotations

import base64 as codec
import hashlib
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.descriptors import OpenFile, opened
from pytest_kwait.simulator.kubelet.files import FileFault
from pytest_kwait.simulator.kubelet.inputs import (
    UsageFault,
    each_input,
    error,
    input_of,
    options,
    out,
    whole,
)
from pytest_kwait.simulator.kubelet.processes import Effect, Read, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.simulator.kubelet.processes import Process, Surroundings

_UNITS = {"": 1, "c": 1, "w": 2, "b": 512, "k": 1024, "K": 1024, "M": 1 << 20, "G": 1 << 30}
_MOST_BLOCK = 1 << 16


def _digest(algorithm: str) -> Callable[[Surroundings, list[str]], Process]:
    def run(around: Surroundings, args: list[str]) -> Process:
        _, names = options(f"{algorithm}sum", args, "", "", "csw")

        def act(name: str, number: int) -> Generator[Effect, None, bool | None]:
            digest = hashlib.new(algorithm, usedforsecurity=False)
            while True:
                read = Read(number)
                yield read
                if not read.data:
                    break
                digest.update(read.data)
            yield out(f"{digest.hexdigest()}  {name}\n")
            return None

        return (yield from each_input(around, f"{algorithm}sum", names, act))

    return run


md5sum, sha1sum = _digest("md5"), _digest("sha1")
sha256sum, sha512sum = _digest("sha256"), _digest("sha512")


def base64(around: Surroundings, args: list[str]) -> Process:
    """Encode, or with `-d` decode; `-w` is the width of lines."""
    given, names = options("base64", args, "d", "w")
    width = int(given.get("w") or 76)
    with (
        input_of(around, names[0] if names else "-") as number,
        around.tasks.account.hold() as hold,
    ):
        data = yield from whole(number, hold)
    if "d" in given:
        try:
            yield Write(1, codec.b64decode(data))
        except ValueError:
            yield error("base64: truncated input")
            return 1
        return 0
    text = codec.b64encode(data).decode()
    if not width:
        yield out(text)
        return 0
    lines = [text[start : start + width] for start in range(0, len(text), width)]
    yield out("".join(f"{line}\n" for line in lines))
    return 0


def _number(text: str) -> int:
    digits = text.rstrip("cwbkKMG")
    unit = text[len(digits) :].removesuffix("B")
    if not digits.isdigit() or unit not in _UNITS:
        raise UsageFault(f"dd: invalid number '{text}'")
    return int(digits) * _UNITS[unit]


def dd(around: Surroundings, args: list[str]) -> Process:
    """Copy blocks: `if= of= bs= count= skip=`."""
    given = {}
    for arg in args:
        name, separator, value = arg.partition("=")
        if not separator or name not in ("if", "of", "bs", "count", "skip", "status", "conv"):
            raise UsageFault(f"dd: {arg}: not simulated by the embedded kubelet")
        given[name] = value
    size = _number(given.get("bs", "512"))
    left = _number(given["count"]) * size if "count" in given else 1 << 62
    skipped = _number(given.get("skip", "0")) * size
    blocks, total = 0, 0
    target: OpenFile | None = None
    try:
        if "of" in given:
            target = opened(
                around.files, around.path(given["of"]), "w", around.tasks.account, around.now,
                around.fds,
            ).retain()  # fmt: skip
        # The block is what `dd` holds in memory.
        with input_of(around, given.get("if", "-")) as number, around.tasks.account.hold() as hold:
            hold.to(size)
            while left > 0:
                read = Read(number, most=min(skipped or left, _MOST_BLOCK))
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
                    yield error(f"dd: error writing '{given['of']}': {why}")
                    return 1
    except FileFault as fault:
        name = given.get("if", "") if target is not None or "of" not in given else given["of"]
        yield error(f"dd: can't open '{name}': {fault}")
        return 1
    finally:
        if target is not None:
            target.release()
    blocks, rest = divmod(total, size)
    if given.get("status") != "none":
        text = f"{blocks}+{int(bool(rest))}"
        yield error(f"{text} records in\n{text} records out")
    return 0

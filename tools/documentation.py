"""Blocks of code in README.md and docs/, and how tests run each of them.

A comment in the line above a block says what its language does not:

- `<!-- file: NAME -->`: the content of this file, beside the tests of the page;
- `<!-- not run: REASON -->`: no test runs it, and why.

`python -m tools.documentation FOLDER` writes the annotated tests to files, for type checkers.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("docs/**/*.md"))),
)
_BLOCK = re.compile(
    r"^(?:<!-- (?P<comment>[^\n]*) -->\n)?```(?P<language>\S*)[^\n]*\n(?P<code>.*?)^```$",
    re.M | re.S,
)


class Kind(Enum):
    """How a block is run."""

    TESTS = "tests, run by pytest"
    BODY = "Python, run as the body of a test"
    FILE = "a file beside the tests"
    SESSION = "commands, run one after the other, whose output is compared"
    COMMANDS = "command lines, whose options are parsed"
    SETTINGS = "settings, read by a run of pytest"
    MANIFEST = "objects, created as a dry run"
    SITE = "a directive of the site"
    OUTPUT = "no code"
    NOT_RUN = "not run, for a reason"


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code.

    Args:
        page: the path from the root.
        line: the number of its first line.
        language: as written behind the fence.
        comment: the comment above it.
    """

    page: str
    line: int
    language: str
    code: str
    comment: str

    @property
    def kind(self) -> Kind | None:
        """How it is run; None if the page does not say."""
        if self.comment.startswith("not run: "):
            return Kind.NOT_RUN
        if self.file:
            return Kind.FILE
        if self.language == "python":
            return Kind.TESTS if re.search(r"^def test_", self.code, re.M) else Kind.BODY
        if self.language == "yaml":
            return Kind.MANIFEST if re.search(r"^kind: ", self.code, re.M) else None
        if self.language.startswith("{"):
            return Kind.SITE
        return _KINDS.get(self.language)

    @property
    def file(self) -> str:
        """The name of the file whose content it is; empty if it is none."""
        return self.comment.removeprefix("file: ") if self.comment.startswith("file: ") else ""


_PULLING = re.compile(r"ErrImagePu(?:ll?)?\b")
"""Also where the end of a line is cut off."""

_KINDS = {
    "": Kind.OUTPUT,
    "sh": Kind.COMMANDS,
    "console": Kind.SESSION,
    "ini": Kind.SETTINGS,
    "toml": Kind.SETTINGS,
}


def page_path(page: str) -> Path:
    """Return the path of a page."""
    return ROOT / page


def read_blocks(page: str) -> list[Block]:
    """Return the blocks of a page in their order."""
    text = page_path(page).read_text()
    return [
        Block(
            page,
            text.count("\n", 0, found.start("code")) + 1,
            found["language"],
            found["code"],
            found["comment"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def read_session(block: Block) -> list[tuple[str, str]]:
    """Return the commands of a session, each with its output."""
    parts = re.split(r"^\$ (.+)\n", block.code, flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def matches(shown: str, output: str) -> bool:
    """Return whether an output is as a page shows it.

    `…` is any text, and alone any lines; the length of rules and times in seconds may differ. An
    image that cannot be pulled has one of two reasons, in turn.
    """
    pattern = "".join(_line_pattern(line) for line in shown.splitlines())
    output = _PULLING.sub("ImagePullBackOff", output.rstrip("\n") + "\n")
    return re.fullmatch(pattern, output) is not None


def write_annotated(folder: Path) -> list[Path]:
    """Write each block of annotated tests to a file; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for page in PAGES:
        for block in read_blocks(page):
            if block.language == "python" and "kwait: Kwait" in block.code:
                path = folder / f"{Path(page).stem.lower().replace('-', '_')}_{block.line}.py"
                path.write_text(block.code)
                written.append(path)
    return written


def _line_pattern(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*?"
    pattern = re.sub(r"={5,}", "={3,}", re.escape(line).replace("…", ".*"))
    return re.sub(r"\d+\\\.\d+s", r"[\\d.]+m?s(?: \\(.*\\))?", pattern) + r"[ \t]*\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder for the annotated tests of the pages")
    write_annotated(parser.parse_args().folder)

"""List the waits of Kubernetes' e2e framework with their answers: `python -m tools.upstream_waits`.

The answers are the tables of docs/port-go.md, and its paragraph "Not here:" for those that have no
counterpart. The command fails if a function has no answer.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE = Path(__file__).parents[1] / "docs" / "port-go.md"
FOLDERS = ("test/e2e/framework", "test/e2e/common/node/framework")
"""Folders of Kubernetes' module with packages of waits."""
NO_COUNTERPART = "not here"

_FUNCTION = re.compile(r"^func (?:\(\w+ \*?(?P<receiver>\w+)\) )?(?P<name>[A-Z]\w*)[(\[]", re.M)
_WAIT = re.compile(r"Wait(?![a-z])|Expect(?![a-z])")
_SUFFIXES = ("WithTimeout", "Timeout")
"""Ends of the names of variants with a limit of their own: the option `timeout` here."""


@dataclass(frozen=True, slots=True, order=True)
class Function:
    """An exported function or method.

    Args:
        package: the folder of its package.
        receiver: the type of a method; empty for a function.
    """

    package: str
    receiver: str
    name: str

    def __str__(self) -> str:
        parts = (self.package, self.receiver, self.name)
        return ".".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the page.

    Args:
        packages: the packages that the answer is for; empty for all.
        qualifier: the package or type before the name; empty without one.
        start: the name, or for `…Suffix` the name before it in the row.
        end: the suffix; empty for a whole name.
        text: the counterpart.
    """

    packages: frozenset[str]
    qualifier: str
    start: str
    end: str
    text: str

    def names(self, function: Function, name: str) -> bool:
        """Return whether this answers for a function, under a name of it."""
        if self.qualifier:
            if self.qualifier not in (function.package, function.receiver):
                return False
        elif self.packages and function.package not in self.packages:
            return False
        if not self.end:
            return name == self.start
        stem = name.removesuffix(self.end)
        return stem != name and self.start.startswith(stem)


def read_functions(folder: Path) -> list[Function]:
    """Return the exported waits and expectations of a folder's packages, without their tests."""
    found = set()
    for path in folder.rglob("*.go"):
        if path.name.endswith("_test.go"):
            continue
        for match in _FUNCTION.finditer(path.read_text(encoding="utf-8")):
            receiver, name = match["receiver"] or "", match["name"]
            # Methods of types that are not exported are called by their package alone.
            if _WAIT.search(name) and receiver[:1] == receiver[:1].upper():
                found.add(Function(path.parent.name, receiver, name))
    return sorted(found)


def read_answers(page: str) -> list[Answer]:
    """Return the answers of a page: of the first column of its tables, and what is not here.

    A bold row names the packages of the rows below it, as Go files import them: `e2epod`.
    """
    answers: list[Answer] = []
    packages: frozenset[str] = frozenset()
    for line in page.splitlines():
        if line.startswith("## "):
            packages = frozenset({"framework"})
        elif line.startswith("| **"):
            named = re.findall(r"`(\w+)`", line)
            packages = frozenset(name.removeprefix("e2e") for name in named)
        elif line.startswith("| "):
            left, _, right = line.strip("| ").partition(" | ")
            answers += _read_row(left, right, packages)
    paragraph = re.search(r"^Not here: .*?(?=^$)", page, re.M | re.S)
    if paragraph is not None:
        answers += _read_row(paragraph[0], NO_COUNTERPART, frozenset())
    return answers


def _read_row(left: str, text: str, packages: frozenset[str]) -> Iterator[Answer]:
    before = ""
    for code in re.findall(r"`([^`]+)`", left):
        if code.startswith("…"):
            yield Answer(packages, "", before, code[1:], text)
            continue
        match = re.match(r"(?:(\w+)\.)?(\w+)", code)
        if match is None:
            continue
        qualifier, before = (match[1] or "").removeprefix("e2e"), match[2]
        yield Answer(packages, qualifier, before, "", text)


def find_answer(function: Function, answers: Iterable[Answer]) -> str:
    """Return the counterpart of a function; empty without an answer."""
    answers = list(answers)
    names = [function.name]
    names += [function.name.removesuffix(end) for end in _SUFFIXES if function.name.endswith(end)]
    for name in names:
        for answer in answers:
            if answer.names(function, name):
                return answer.text
    return ""


def find_folders() -> list[Path]:
    """Return the folders of the newest Kubernetes in Go's module cache.

    Raises:
        SystemExit: there is no Go, or no Kubernetes.
    """
    try:
        command = ["go", "env", "GOMODCACHE"]
        cache = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        sys.exit("there is no go in PATH: name the folder test/e2e/framework of Kubernetes")
    versions = sorted(Path(cache, "k8s.io").glob("kubernetes@v*"), key=_version_of)
    if not versions:
        sys.exit(f"{cache} has no Kubernetes: run `go mod download k8s.io/kubernetes@VERSION`")
    return [versions[-1] / folder for folder in FOLDERS]


def _version_of(folder: Path) -> tuple[list[int], bool]:
    version, _, pre_release = folder.name.partition("@v")[2].partition("-")
    return [int(part) for part in version.split(".")], not pre_release


def main(arguments: list[str] | None = None) -> int:
    """Print each function with its answer; return 1 if one has none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="FOLDER",
        help="folders of Go packages; by default of the newest Kubernetes in the module cache",
    )
    folders = parser.parse_args(arguments).folders or find_folders()
    functions = [function for folder in folders for function in read_functions(folder)]
    if not functions:
        print(f"no waits in {', '.join(map(str, folders))}", file=sys.stderr)
        return 1
    answers = read_answers(PAGE.read_text(encoding="utf-8"))
    missing = []
    for function in functions:
        answer = find_answer(function, answers)
        print(f"{function}: {answer or 'NO ANSWER'}")
        if not answer:
            missing.append(str(function))
    if missing:
        text = "".join(f"\n  {name}" for name in missing)
        print(f"{len(missing)} without an answer in docs/port-go.md:{text}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

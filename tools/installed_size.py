"""Check the wheel in dist/ as pip installs it: `python -m tools.installed_size`.

It fits every platform (`py3-none-any`), and an installation adds at most 60 MB to that of the
official client. Counted is what `pip install` writes, with compiled modules and without extras.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

if TYPE_CHECKING:
    from collections.abc import Mapping

DIST = Path(__file__).parents[1] / "dist"
LIMIT = 60_000_000
PROJECT = "pytest-kwait"
CLIENT = "kubernetes"


def check_tags(wheel: Path) -> str | None:
    """Return why a wheel does not fit every platform; None if it does."""
    tags = sorted(map(str, parse_wheel_filename(wheel.name)[3]))
    if tags == ["py3-none-any"]:
        return None
    return f"{wheel.name} is for {', '.join(tags)}; it must be for py3-none-any"


def check_size(sizes: Mapping[str, int]) -> str | None:
    """Return why an installation is too large; None if it is not."""
    total = sum(sizes.values())
    if total <= LIMIT:
        return None
    return (
        f"{PROJECT} adds {_megabytes(total)} to an installation of {CLIENT}; at most "
        f"{_megabytes(LIMIT)} are allowed. The largest parts:\n{_largest(sizes)}"
    )


def read_installed(folder: Path) -> dict[str, Distribution]:
    """Return the packages that pip installed in a folder, by their canonical name."""
    return {canonicalize_name(each.name): each for each in distributions(path=[str(folder)])}


def added_sizes(installed: Mapping[str, Distribution]) -> dict[str, int]:
    """Return the bytes of each package that is needed beside those of the official client."""
    added = _needed_by(PROJECT, installed) - _needed_by(CLIENT, installed)
    return {name: _size(installed[name]) for name in sorted(added)}


def _needed_by(name: str, installed: Mapping[str, Distribution]) -> set[str]:
    """Return a package and all packages that it requires, without extras."""
    needed: set[str] = set()
    rest = [name]
    while rest:
        each = canonicalize_name(rest.pop())
        if each not in needed:
            needed.add(each)
            requirements = map(Requirement, installed[each].requires or ())
            rest += [r.name for r in requirements if not r.marker or r.marker.evaluate()]
    return needed


def _size(package: Distribution) -> int:
    paths = (Path(str(each.locate())) for each in package.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file())


def _largest(sizes: Mapping[str, int]) -> str:
    names = sorted(sizes, key=lambda name: -sizes[name])[:5]
    return "\n".join(f"  {_megabytes(sizes[name]):>8} {name}" for name in names)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def main() -> int:
    """Install the wheel of dist/ in a folder of its own; return an exit code."""
    (wheel,) = DIST.glob("*.whl")
    with TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--target", folder, str(wheel)],
            check=True,
        )
        sizes = added_sizes(read_installed(Path(folder)))
    failures = list(filter(None, (check_tags(wheel), check_size(sizes))))
    print(f"{PROJECT} adds {_megabytes(sum(sizes.values()))} to an installation of {CLIENT}")
    print("\n".join(failures), file=sys.stderr, end="\n" if failures else "")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""The arguments of helm that name a chart and its values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.manifests import InvalidManifest, find_file, is_path, read_values
from pytest_kwait.temp_dir import TempDir

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

Values: TypeAlias = "str | Path | Mapping[str, Any] | Sequence[str | Path | Mapping[str, Any]]"
"""A path, YAML text or a dict, or a sequence of these, of which later ones win."""

_DEFINITIONS = ("crds", "charts")
"""Folders of a chart that may have definitions."""

_CHART_FLAGS = frozenset(
    {
        "--devel",
        "--insecure-skip-tls-verify",
        "--pass-credentials",
        "--plain-http",
        "--verify",
    }
)
"""Flags of every command that fetches a chart.

Source: helm/pkg/cmd/flags.go addChartPathOptionsFlags.
"""
_CHART_OPTIONS = frozenset(
    {
        "--ca-file",
        "--cert-file",
        "--key-file",
        "--keyring",
        "--password",
        "--repo",
        "--username",
        "--version",
    }
)
"""Options with a value of the same commands."""


@dataclass(frozen=True, slots=True)
class ChartArguments:
    """The arguments of a command that names a chart, as they were given.

    Args:
        chart: a folder, an archive, `oci://…`, a URL, or `repository/name`.
        values: the values.
        repo: the URL of a repository; None for none.
        version: the version of the chart; None for the newest.
        args: further arguments of helm.
    """

    chart: str | Path
    values: Values | None
    repo: str | None
    version: str | None
    args: tuple[str, ...]


def _list_values(values: Any) -> Sequence[Any]:
    """Return values in their order: of a list its items."""
    if values is None:
        return ()
    several = isinstance(values, Sequence) and not isinstance(values, str)
    return values if several else (values,)


def _select_chart_options(args: Iterable[str]) -> list[str]:
    """Return those of helm's arguments that say how a chart is fetched."""
    selected = []
    words = iter(args)
    for word in words:
        option = word.partition("=")[0]
        if option in _CHART_FLAGS | _CHART_OPTIONS:
            selected.append(word)
        if word in _CHART_OPTIONS:
            selected += [value for value in (next(words, None),) if value is not None]
    return selected


class Arguments:
    """The arguments of a chart and its values as helm takes them; dicts become files meanwhile.

    Args:
        folders: where relative paths are looked for, first match wins.

    Raises:
        InvalidArgument: the chart or the values are of a wrong type.
        InvalidManifest: there is no such file, or a file of values is not a YAML mapping.
    """

    def __init__(self, folders: Iterable[Path], given: ChartArguments) -> None:
        self._folders = list(folders)
        self._folder: TempDir | None = None
        self.shown: dict[str, str] = {}
        """Arguments that messages show otherwise."""
        self.path = self._find_chart(given.chart, given.repo)
        self.values = [
            option
            for value in _list_values(given.values)
            for option in ("--values", self._read(value))
        ]
        chart = str(given.chart if self.path is None else self.path)
        repo = [] if given.repo is None else ["--repo", given.repo]
        version = [] if given.version is None else ["--version", given.version]
        self.args = [chart, *repo, *version, *self.values, *given.args]
        self.chart = [chart, *repo, *version, *_select_chart_options(given.args)]
        """What finds the chart, for commands that take no values."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._folder is not None:
            self._folder.remove()

    def _find_chart(self, chart: Any, repo: str | None) -> Path | None:
        """Return the path of a folder or archive; None for a chart that helm fetches."""
        if not isinstance(chart, str | Path) or not str(chart):
            valid = "use a folder, an archive, 'oci://…', a URL, or 'repository/name'"
            raise InvalidArgument("chart", chart, valid)
        if isinstance(chart, Path):
            return find_file(chart, self._folders).absolute()
        if repo is not None or "://" in chart:
            return None
        try:
            return find_file(chart, self._folders).absolute()
        except InvalidManifest:
            if chart.startswith((".", "/")) or chart.endswith(".tgz"):
                raise
            return None

    def _read(self, value: Any) -> str:
        """Return the path of a file of values."""
        if not isinstance(value, str | Path | Mapping):
            raise InvalidArgument(
                "values", value, "use a path, YAML text, a dict, or a list of these"
            )
        read = read_values(value, self._folders) or [({}, "")]
        fields, place = read[-1]
        if len(read) > 1 or not isinstance(fields, dict):
            raise InvalidManifest(place, "is not one YAML mapping, as values of a chart are")
        if is_path(value):
            return str(find_file(value, self._folders).absolute())
        if self._folder is None:
            self._folder = TempDir("helm-")
        path = self._folder.path / f"values-{len(self.shown) + 1}.json"
        path.write_text(json.dumps(fields))
        self.shown[str(path)] = f"{{{', '.join(map(str, fields))}}}"
        return str(path)

    @property
    def may_have_definitions(self) -> bool:
        """False for a folder without definitions of its own or of subcharts."""
        path = self.path
        return (
            path is None or path.is_file() or any((path / each).exists() for each in _DEFINITIONS)
        )

"""Settings of the run: read from ini file, environment and command line.

A later source overrides an earlier one. No other module of the package reads these sources.
The header names each setting that differs from its default, with its source.
"""

from __future__ import annotations

import os
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.plugin.ini_values import read_ini_values
from pytest_kwait.suite.config.options import (
    OPTIONS,
    SETTING_DEFINITIONS,
    TIMEOUTS,
    SettingDefinition,
)
from pytest_kwait.suite.config.settings import Settings
from pytest_kwait.suite.config.values import expand_home, suggest_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.plugin.run import Run


def read_settings(config: pytest.Config, environ: Mapping[str, str]) -> Settings:
    """Return the settings from ini file, environment and command line.

    Raises:
        pytest.UsageError: a value is invalid, or a `KWAIT_…` name is unknown.
    """
    _refuse_unknown(environ)
    here = config.invocation_params.dir
    ini_folder = config.inipath.parent if config.inipath is not None else config.rootpath
    try:
        settings = _merge_layer(Settings(), _read_ini(config), "ini", ini_folder)
        settings = _merge_layer(
            settings,
            {definition.name: environ.get(definition.env) or None for definition in OPTIONS},
            "env",
            here,
        )
        return _merge_layer(
            settings,
            {definition.name: config.getoption(definition.ini) for definition in OPTIONS},
            "flag",
            here,
        )
    except InvalidArgument as error:
        raise pytest.UsageError(str(error)) from None


def check_switches(args: list[str]) -> None:
    """Refuse a value of an option that takes none.

    Args:
        args: the arguments, with those of the environment and of the ini file.

    Raises:
        pytest.UsageError: names the option, its value and what is valid.
    """
    switches = {
        flag: definition
        for definition in OPTIONS
        if definition.kind == "bool"
        for flag in definition.flags
    }
    for flag, equals, value in (argument.partition("=") for argument in args):
        if equals and flag in switches:
            definition = switches[flag]
            valid = (
                f"the option takes no value: use {' or '.join(definition.flags)} "
                f"({definition.env} and ini {definition.ini} take true or false)"
            )
            raise pytest.UsageError(
                str(InvalidArgument(definition.name, value, valid, f"option {flag}"))
            )


def check_rootdir(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Refuse a run whose rootdir or ini file was taken from the value of an option.

    pytest searches its ini file before it knows the options of plugins: the value behind a space
    is an argument to it, and an existing path moves rootdir. Options of other plugins are refused
    where the ini file that was not read has settings of this plugin.

    Args:
        config: the configuration, with rootdir and ini file.
        parser: the parser, with the options of all plugins.
        args: the arguments, with those of the environment and of the ini file.

    Raises:
        pytest.UsageError: names the option, its value, both places and the form that works.
    """
    # Private, as no public function says which ini file pytest finds for other arguments.
    from _pytest.config import findpaths

    # The ini file's own arguments were not known when it was searched.
    given = _expand_files(args)[len(config.getini("addopts")) :]
    known = parser.parse_known_args(given)
    setup = {
        "inifile": known.inifilename,
        "override_ini": known.override_ini,
        "args": known.file_or_dir,
        "rootdir_cmd_arg": known.rootdir or None,
        "invocation_dir": config.invocation_params.dir,
    }
    accepted = signature(findpaths.determine_setup).parameters
    values: Any = {name: value for name, value in setup.items() if name in accepted}
    rootdir, ini_file, ini_values, *_ = findpaths.determine_setup(**values)
    if (rootdir, ini_file) == (config.rootpath, config.inipath):
        return
    flags = [definition.flag for definition in OPTIONS]
    guarded = any(name.startswith("kwait_") for name in ini_values)
    for option, value in pairwise(given):
        if (
            not option.startswith("--")
            or "=" in option
            or value in known.file_or_dir
            or not (config.invocation_params.dir / value).exists()
        ):
            continue
        if guarded or any(flag.startswith(option) for flag in flags):
            raise pytest.UsageError(
                f"option {option}: pytest took its value {value} for the path of tests, so "
                f"rootdir is {_format_rootdir(config.rootpath, config.inipath)} instead of "
                f"{_format_rootdir(rootdir, ini_file)}; write {option}={value}"
            )


def _expand_files(args: list[str]) -> list[str]:
    """Return the arguments with those in `@file` in their place, a line each, as argparse does."""
    expanded = []
    for argument in args:
        file = Path(argument[1:])
        expanded += (
            file.read_text().splitlines() if argument[0:1] == "@" and file.is_file() else [argument]
        )
    return expanded


def _format_rootdir(rootdir: Path, ini_file: Path | None) -> str:
    if ini_file is None:
        return f"{rootdir} (no ini file)"
    return f"{rootdir} (ini file {ini_file.name if ini_file.parent == rootdir else ini_file})"


def ignores_kubeconfig(settings: Settings) -> bool:
    """Return whether KUBECONFIG is set although the run does not use it."""
    is_read = settings.is_existing or settings.export_kubeconfig
    return bool(os.environ.get("KUBECONFIG")) and not is_read


def _merge_layer(settings: Settings, given: Mapping[str, Any], kind: str, folder: Path) -> Settings:
    values = {name: value for name, value in given.items() if name != TIMEOUTS.name}

    def source(definition: SettingDefinition[Any]) -> str:
        return _format_source(definition, kind, given[definition.name])

    def expand(path: str, name: str) -> Path:
        return folder / expand_home(path, name, source(SETTING_DEFINITIONS[name]))

    for name in (option.name for option in OPTIONS if option.kind == "path"):
        if isinstance(values.get(name), str) and values[name]:
            values[name] = expand(values[name], name)
    if str(values.get("perturbations") or "").startswith("@"):
        values["perturbations"] = f"@{expand(values['perturbations'][1:].strip(), 'perturbations')}"
    if values.get("nodes"):
        from pytest_kwait.clusters.node_table import is_node_file

        if is_node_file(values["nodes"]):
            values["nodes"] = str(expand(values["nodes"].strip(), "nodes"))
    if values.get("report"):
        several = values["report"]
        texts = several.split(",") if isinstance(several, str) else several
        files = texts if isinstance(texts, list) else [texts]
        # An empty name and a value of another type are kept, to be refused.
        values["report"] = [
            str(expand(file.strip(), "report")) if isinstance(file, str) and file.strip() else file
            for file in files
        ]
    return settings.merged(values, source, given[TIMEOUTS.name])


def _format_source(definition: SettingDefinition[Any], kind: str, value: object) -> str:
    switched_off = definition.kind == "bool" and value in ("false", False)
    sources = {
        "ini": f"ini {definition.ini}",
        "env": f"env {definition.env}",
        "flag": f"option {definition.flags[switched_off]}",
    }
    return sources[kind]


def _read_ini(config: pytest.Config) -> dict[str, Any]:
    values = read_ini_values(config, [definition.ini for definition in OPTIONS])
    return {definition.name: values[definition.ini] for definition in OPTIONS}


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = [definition.env for definition in OPTIONS]
    for name in sorted(environ):
        if name.startswith("KWAIT_") and name not in known:
            raise pytest.UsageError(
                f"the environment has {name}, which is no setting of pytest-kwait: "
                f"{suggest_name(name, known, prefix='KWAIT_')}the names are {', '.join(known)}"
            )


class SettingsHeader:
    """Lists the settings that were given, each with its source."""

    def __init__(self, run: Run) -> None:
        self._settings = run.settings

    def pytest_report_header(self) -> list[str]:
        """List each setting that was given, with its source."""
        lines = []
        changed = [
            f"{name}={setting.given} ({setting.source})"
            for name, setting in self._settings.changed()
        ]
        if changed:
            lines.append(f"kwait: {', '.join(changed)}")
        if ignores_kubeconfig(self._settings):
            lines.append("kwait: KUBECONFIG is set and not used; --kwait-cluster=existing uses it")
        return lines

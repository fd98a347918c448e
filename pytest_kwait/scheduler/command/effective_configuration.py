"""The configuration that file and flags make together, and its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from pytest_kwait.scheduler.command.config_errors import CommandError, aggregate
from pytest_kwait.scheduler.command.configuration import (
    Configuration,
    Profile,
    encode_configuration,
)
from pytest_kwait.scheduler.command.configuration_file import (
    DecodedConfiguration,
    decode_configuration,
    find_section,
    parse_yaml,
)
from pytest_kwait.scheduler.command.configuration_rules import validate_configuration
from pytest_kwait.scheduler.command.profiles import set_profile_defaults

if TYPE_CHECKING:
    from pytest_kwait.scheduler.command.flags import Flags

__all__ = ["load_configuration", "read_configuration", "write_configuration"]

_ELECTION = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration",
    "leader_elect_renew_deadline": "renew_deadline",
    "leader_elect_retry_period": "retry_period",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}
_CONNECTION = {"kubeconfig": "kubeconfig", "kube_api_qps": "qps", "kube_api_burst": "burst"}


def load_configuration(flags: Flags) -> Configuration:
    """Return the configuration: the file's, then each flag that was given, then the defaults.

    Kubernetes' scheduler lets a file win over the deprecated flags; here every flag wins.

    Raises:
        ProgramError: the file cannot be read, or the whole of it is not sound: all that is wrong
            with flags and fields at once.

    Source: cmd/kube-scheduler/app/options/options.go ApplyTo.
    """
    read = (
        read_configuration(Path(flags.config))
        if flags.config
        else DecodedConfiguration(Configuration())
    )
    configuration = read.configuration
    given = flags.given
    election = {field: getattr(flags, name) for name, field in _ELECTION.items() if name in given}
    connection = {
        field: getattr(flags, name) for name, field in _CONNECTION.items() if name in given
    }
    configuration = replace(
        configuration,
        leader_election=replace(configuration.leader_election, **election),
        client_connection=replace(configuration.client_connection, **connection),
        profiles=set_profile_defaults(configuration.profiles, Profile()),
    )
    # What could not be read has its default, which nothing may be held against.
    sound = [
        error
        for error in validate_configuration(configuration)
        if find_section(error.field) not in read.broken
    ]
    errors = [*read.errors, *sound, *flags.errors()]
    if errors:
        raise aggregate(errors)
    return configuration


def read_configuration(path: Path) -> DecodedConfiguration:
    """Return the configuration of a file, as far as it says one.

    Raises:
        ProgramError: it cannot be read, or is none.

    Source: cmd/kube-scheduler/app/options/configfile.go LoadConfigFromFile.
    """
    try:
        text = path.expanduser().read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"open {path}: it is not text") from None
    except OSError as error:
        raise CommandError(f"open {path}: {_lower_field_name(error)}") from None
    return decode_configuration(parse_yaml(text))


def write_configuration(configuration: Configuration, path: Path) -> None:
    """Write the configuration as YAML; reading it gives the same.

    Raises:
        ProgramError: it cannot be written there.

    Source: cmd/kube-scheduler/app/options/configfile.go LogOrWriteConfig.
    """
    try:
        path.expanduser().write_text(format_yaml(configuration), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"open {path}: {_lower_field_name(error)}") from None


def format_yaml(configuration: Configuration) -> str:
    """Return the configuration as YAML."""
    return yaml.safe_dump(encode_configuration(configuration), sort_keys=True, allow_unicode=True)


def _lower_field_name(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]

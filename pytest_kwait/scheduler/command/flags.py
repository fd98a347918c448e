"""The flags of `kwait-scheduler`, grouped as in kube-scheduler.

The module has the types of values with the error messages of Go's flag library, then the parser
and the help text by group, then the flags.

Source: spf13/pflag; cmd/kube-scheduler/app/options.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.apimachinery.go_values import (
    INT32,
    parse_bool,
    parse_duration,
    parse_float,
    parse_int,
    parse_ip,
    quote_go,
)
from pytest_kwait.scheduler.command.config_errors import CommandError
from pytest_kwait.scheduler.command.feature_gates import describe_gates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "BOOL",
    "COMMAND",
    "DURATION",
    "FLOAT",
    "INT",
    "INT32_FLAG",
    "IP",
    "PROGRAM",
    "SECURE_PORT",
    "STRING",
    "STRINGS",
    "Flag",
    "FlagCommand",
    "FlagType",
    "Flags",
    "help_text",
    "parse_flags",
    "read_flags",
]

if TYPE_CHECKING:
    _Type = click.ParamType[Any]
else:
    _Type = click.ParamType  # generic only since 8.4


class FlagType(_Type):
    """A type of flag values.

    Args:
        name: its name in the help.
        parse: converts the text; raises ValueError with the reason.
    """

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of the text; defaults are converted already."""
        if not isinstance(value, str):
            return value
        text = value
        if param is not None and "-v" in param.opts and text.startswith("="):
            text = text[1:]  # `-v=2`: Go's flag library accepts this form of short flags
        try:
            return self._parse(text)
        except ValueError as error:
            names = [] if param is None else [*param.opts, *param.secondary_opts]
            flag = ", ".join(sorted(names, key=len))
            self.fail(f'invalid argument {quote_go(text)} for "{flag}" flag: {error}', param, ctx)


def _split_strings(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


STRING = FlagType("string", str)
STRINGS = FlagType("strings", _split_strings)
"""A comma-separated list; repeated flags add up."""
BOOL = FlagType("bool", parse_bool)
INT = FlagType("int", parse_int)
INT32_FLAG = FlagType("int32", lambda text: parse_int(text, INT32))
FLOAT = FlagType("float32", parse_float)
DURATION = FlagType("duration", parse_duration)
IP = FlagType("ip", parse_ip)


class Flag(click.Option):
    """A flag of a group.

    Args:
        group: its heading in the help.
        name: its name, with dashes; underscores are equivalent.
        kind: the type of its value.
        default: its default value.
        help: its description.
        short: an equivalent single letter; empty for none.
    """

    def __init__(
        self, group: str, name: str, kind: FlagType, default: Any, help: str, short: str = ""
    ) -> None:
        names = [f"--{name}", *([f"-{short}"] if short else [])]
        super().__init__(
            [*names, name.replace("-", "_")],
            type=kind,
            default=None if kind is STRINGS else default,
            multiple=kind is STRINGS,
            help=help,
        )
        self.group = group
        self.kind = kind
        self.otherwise = default

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return its names with the type of its value, and its description."""
        names = ", ".join(sorted(self.opts, key=len))
        shown = names if self.kind is BOOL else f"{names} {self.kind.name}"
        default = self._shown_default()
        return shown, (self.help or "") + (f" (default {default})" if default else "")

    def _shown_default(self) -> str:
        value = self.otherwise
        if value in ("", 0, False, ()):
            return ""
        if self.kind is DURATION:
            return format_duration(value)
        if self.kind is BOOL:
            return "true"
        if isinstance(value, tuple):
            return f"[{','.join(value)}]"
        return (
            quote_go(value)
            if self.kind.name == "string"
            else f"{value:g}"
            if isinstance(value, float)
            else str(value)
        )


class FlagCommand(click.Command):
    """A command that takes flags only.

    Args:
        name: the program's name.
        flags: in the order of their groups.
        about: its description for the help.
    """

    def __init__(self, name: str, flags: Sequence[Flag], about: str) -> None:
        super().__init__(
            name,
            params=list(flags),
            help=about,
            add_help_option=False,
            options_metavar="[flags]",
            context_settings={
                "token_normalize_func": lambda token: token.replace("_", "-"),
                "allow_extra_args": True,
            },
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a boolean flag without a value is true."""
        return super().parse_args(ctx, self._spelled_out(args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Format the flags by group."""
        flags = cast("list[Flag]", self.params)
        for group in dict.fromkeys(flag.group for flag in flags):
            ours = sorted(
                (flag for flag in flags if flag.group == group), key=lambda f: f.name or ""
            )
            with formatter.section(f"{group[:1].upper()}{group[1:]} flags"):
                formatter.write_dl([flag.get_help_record(ctx) for flag in ours])

    def _spelled_out(self, args: Sequence[str]) -> list[str]:
        """Give boolean flags an explicit value: in Go they never consume the next argument."""
        flags = {name: cast("Flag", flag) for flag in self.params for name in flag.opts}
        spelled: list[str] = []
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                spelled += [arg, *rest]
                break
            name = arg if not arg.startswith("--") else f"--{arg[2:].replace('_', '-')}"
            flag = flags.get(name)
            if flag is not None and flag.kind is BOOL:
                spelled.append("--" + max(flag.opts, key=len)[2:] + "=true")
                continue
            spelled.append(arg)
            if flag is not None:
                # The next argument is the value, whatever its form.
                spelled += [value for value in [next(rest, None)] if value is not None]
        return spelled


def read_flags(command: FlagCommand, argv: Sequence[str]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return flag values by their Python names, and the names of the given flags.

    Args:
        command: the command with its flags.
        argv: the arguments without the program's name.

    Raises:
        CommandError: an unknown flag, an invalid value, or positional arguments.

    Source: the flag library of Go's programs, github.com/spf13/pflag (its wording), and
    component-base cli/flag/flags.go WordSepNormalizeFunc.
    """
    try:
        context = command.make_context(str(command.name), list(argv))
    except click.NoSuchOption as error:
        raise CommandError(_unknown_flag_error(command, error.option_name)) from None
    except click.BadOptionUsage as error:
        raise CommandError(_strip_dashes(error.option_name)) from None
    except click.UsageError as error:
        raise CommandError(error.message) from None
    if any(context.args):
        given = " ".join(map(quote_go, context.args))
        raise CommandError(
            f"{quote_go(str(command.name))} does not take any arguments, got [{given}]"
        )
    values: dict[str, Any] = {}
    named: set[str] = set()
    for flag in cast("list[Flag]", command.params):
        name = str(flag.name)
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            named.add(name)
        value = context.params[name]
        if flag.kind is STRINGS:
            parts = tuple(part for some in value or () for part in some)
            value = parts if name in named else flag.otherwise
        values[name] = value
    return values, frozenset(named)


def _unknown_flag_error(command: FlagCommand, name: str) -> str:
    if not name.startswith("--"):
        return f"unknown shorthand flag: '{name.lstrip('-')[:1]}' in {name}"
    known = [option for flag in command.params for option in flag.opts]
    near = difflib.get_close_matches(name.replace("_", "-"), known, n=1)
    return f"unknown flag: {name}" + (f" (did you mean {near[0]}?)" if near else "")


def _strip_dashes(name: str) -> str:
    if name.startswith("--"):
        return f"flag needs an argument: {name}"
    return f"flag needs an argument: '{name[1:]}' in {name}"


PROGRAM = "kwait-scheduler"
SECURE_PORT = 10259

_MISC = "misc"
_SERVING = "secure serving"
_AUTHENTICATION = "authentication"
_AUTHORIZATION = "authorization"
_DEPRECATED = "deprecated"
_ELECTION = "leader election"
_GATES = "feature gate"
_LOGS = "logs"
_GLOBAL = "global"

_ABOUT = """Gives pods that wait for one a node to run on.

The scheduler of pytest-kwait takes the pods that name it, finds the nodes that fit by its
predicates, rates them by its priorities and binds each pod to the best. Its flags and its
configuration are those of Kubernetes' scheduler; several may run beside each other, each for the
scheduler names of its profiles."""

_CONFIG_WINS = "The flag wins over the configuration file."

_FLAGS = (
    Flag(_MISC, "config", STRING, "", "File with a KubeSchedulerConfiguration as YAML or JSON."),
    Flag(
        _MISC,
        "master",
        STRING,
        "",
        "Address of the API server; wins over the one in the kubeconfig.",
    ),
    Flag(
        _MISC,
        "write-config-to",
        STRING,
        "",
        "Write the configuration that flags and file make to this file, and exit.",
    ),
    Flag(
        _SERVING,
        "bind-address",
        IP,
        "0.0.0.0",  # noqa: S104 # the default of Kubernetes' scheduler, whose probes come from outside
        "Address to listen on at the secure port; 0.0.0.0 and :: are all of both families.",
    ),
    Flag(
        _SERVING,
        "cert-dir",
        STRING,
        "",
        "Folder where a self-signed certificate is kept; without one it is held in memory. Not"
        " looked at where --tls-cert-file and --tls-private-key-file are given.",
    ),
    Flag(
        _SERVING,
        "secure-port",
        INT,
        SECURE_PORT,
        "Port to serve HTTPS on, with authentication and authorization; 0 serves none.",
    ),
    Flag(
        _SERVING,
        "tls-cert-file",
        STRING,
        "",
        "File with the certificate to serve with, its authorities after it. Where neither it nor"
        " the key is given, a self-signed one is made.",
    ),
    Flag(_SERVING, "tls-private-key-file", STRING, "", "File with the key of --tls-cert-file."),
    Flag(
        _AUTHENTICATION,
        "authentication-kubeconfig",
        STRING,
        "",
        "Kubeconfig of the API server that reviews tokens (create tokenreviews). Without it tokens"
        " mean nothing, and callers that bring no certificate are anonymous.",
    ),
    Flag(
        _AUTHENTICATION,
        "authentication-skip-lookup",
        BOOL,
        False,
        "Whether not to ask the API server of --authentication-kubeconfig for the authorities of"
        " client certificates.",
    ),
    Flag(
        _AUTHENTICATION,
        "authentication-token-webhook-cache-ttl",
        DURATION,
        10.0,
        "How long the answer to a token is kept.",
    ),
    Flag(
        _AUTHENTICATION,
        "authentication-tolerate-lookup-failure",
        BOOL,
        True,
        "Whether to go on without client certificates when their authorities cannot be had.",
    ),
    Flag(
        _AUTHENTICATION,
        "client-ca-file",
        STRING,
        "",
        "File with the authorities of client certificates: who shows one signed by them is the user"
        " of its common name, a member of the groups of its organizations.",
    ),
    Flag(
        _AUTHORIZATION,
        "authorization-always-allow-paths",
        STRINGS,
        ("/healthz", "/readyz", "/livez"),
        "Paths that everybody may read; a * at the end stands for any rest.",
    ),
    Flag(
        _AUTHORIZATION,
        "authorization-kubeconfig",
        STRING,
        "",
        "Kubeconfig of the API server that reviews access (create subjectaccessreviews). Without it"
        " nobody but system:masters may read more than the paths that are always allowed.",
    ),
    Flag(
        _AUTHORIZATION,
        "authorization-webhook-cache-authorized-ttl",
        DURATION,
        10.0,
        "How long it is kept that somebody may read a path.",
    ),
    Flag(
        _AUTHORIZATION,
        "authorization-webhook-cache-unauthorized-ttl",
        DURATION,
        10.0,
        "How long it is kept that somebody may not.",
    ),
    Flag(
        _DEPRECATED,
        "address",
        IP,
        "127.0.0.1",
        "DEPRECATED: address to listen on at the insecure port.",
    ),
    Flag(
        _DEPRECATED,
        "kube-api-burst",
        INT32_FLAG,
        100,
        "DEPRECATED: requests to the API server at once, above --kube-api-qps. " + _CONFIG_WINS,
    ),
    Flag(
        _DEPRECATED,
        "kube-api-qps",
        FLOAT,
        50.0,
        "DEPRECATED: requests to the API server per second. " + _CONFIG_WINS,
    ),
    Flag(
        _DEPRECATED,
        "kubeconfig",
        STRING,
        "",
        "DEPRECATED: kubeconfig of the API server. " + _CONFIG_WINS,
    ),
    Flag(
        _DEPRECATED,
        "pod-max-in-unschedulable-pods-duration",
        DURATION,
        300.0,
        "DEPRECATED: after how long a pod that fits nowhere is tried again though nothing has"
        " changed.",
    ),
    Flag(
        _DEPRECATED,
        "port",
        INT,
        0,
        "DEPRECATED: port to serve plain HTTP on, without authentication; 0 serves none.",
    ),
    Flag(
        _ELECTION,
        "leader-elect",
        BOOL,
        True,
        "Whether to become leader before scheduling: for several of the same scheduler.",
    ),
    Flag(
        _ELECTION,
        "leader-elect-lease-duration",
        DURATION,
        15.0,
        "How long others wait after the last renewal before they take over.",
    ),
    Flag(
        _ELECTION,
        "leader-elect-renew-deadline",
        DURATION,
        10.0,
        "How long a leader that cannot renew its lease stays one; less than the lease duration.",
    ),
    Flag(
        _ELECTION,
        "leader-elect-resource-lock",
        STRING,
        "leases",
        "Kind of the object that is the lock: leases.",
    ),
    Flag(
        _ELECTION,
        "leader-elect-resource-name",
        STRING,
        "kube-scheduler",
        "Name of the object that is the lock.",
    ),
    Flag(
        _ELECTION,
        "leader-elect-resource-namespace",
        STRING,
        "kube-system",
        "Namespace of the object that is the lock.",
    ),
    Flag(
        _ELECTION,
        "leader-elect-retry-period",
        DURATION,
        2.0,
        "Pause between tries to become and to stay leader.",
    ),
    Flag(
        _GATES,
        "feature-gates",
        STRINGS,
        (),
        "Features to turn, as name=true|false, separated by commas: " + ", ".join(describe_gates()),
    ),
    Flag(
        _LOGS,
        "v",
        INT32_FLAG,
        0,
        "How much to log: 0 what matters to who runs it, 2 the configuration as well, 4 and more"
        " each step.",
        short="v",
    ),
    Flag(_GLOBAL, "help", BOOL, False, "Show this, and exit.", short="h"),
    Flag(_GLOBAL, "version", BOOL, False, "Show the version, and exit."),
)

COMMAND = FlagCommand(PROGRAM, _FLAGS, _ABOUT)


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags as given; durations in seconds.

    Args:
        given: the names of the flags on the command line.

    The other fields have the names of their flags, with underscores.
    """

    config: str
    master: str
    write_config_to: str
    bind_address: str
    cert_dir: str
    secure_port: int
    tls_cert_file: str
    tls_private_key_file: str
    authentication_kubeconfig: str
    authentication_skip_lookup: bool
    authentication_token_webhook_cache_ttl: float
    authentication_tolerate_lookup_failure: bool
    client_ca_file: str
    authorization_always_allow_paths: tuple[str, ...]
    authorization_kubeconfig: str
    authorization_webhook_cache_authorized_ttl: float
    authorization_webhook_cache_unauthorized_ttl: float
    address: str
    kube_api_burst: int
    kube_api_qps: float
    kubeconfig: str
    pod_max_in_unschedulable_pods_duration: float
    port: int
    leader_elect: bool
    leader_elect_lease_duration: float
    leader_elect_renew_deadline: float
    leader_elect_resource_lock: str
    leader_elect_resource_name: str
    leader_elect_resource_namespace: str
    leader_elect_retry_period: float
    feature_gates: tuple[str, ...]
    v: int
    help: bool
    version: bool
    given: frozenset[str]

    def errors(self) -> list[str]:
        """Return the errors of the flags that are not part of the configuration.

        Source: apiserver pkg/server/options/serving.go Validate, authorization/path/path.go; for
        the insecure port kube-scheduler's options of 1.20.
        """
        errors = []
        if not 0 <= self.secure_port <= 65535:
            errors.append(
                f"--secure-port {self.secure_port} must be between 0 and 65535, inclusive. "
                "0 for turning off secure port"
            )
        if not 0 <= self.port <= 65535:
            errors.append(
                f"--port {self.port} must be between 0 and 65535, inclusive. "
                "0 for turning off insecure (HTTP) port"
            )
        if self.secure_port == self.port != 0:
            errors.append(f"--port {self.port} must differ from --secure-port")
        errors += [
            f'only trailing * allowed in "{path.removeprefix("/")}"'
            for path in self.authorization_always_allow_paths
            if "*" in path[:-1]
        ]
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            missing = "key" if self.tls_cert_file else "cert"
            errors.append(f"missing filename for serving {missing}")
        errors += [
            f"--{name} must not be negative"
            for name, value in self.pairs()
            if name.endswith(("-ttl", "-pods-duration")) and value < 0
        ]
        return errors

    def pairs(self) -> list[tuple[str, Any]]:
        """Return each flag with its value, sorted by name."""
        names = sorted(str(flag.name) for flag in _FLAGS)
        return [(name.replace("_", "-"), getattr(self, name)) for name in names]


def help_text() -> str:
    """Return the help, as wide as the terminal but at most 98 columns."""
    context = click.Context(COMMAND, info_name=PROGRAM, max_content_width=100)
    return COMMAND.get_help(context) + "\n"


def parse_flags(argv: Sequence[str]) -> Flags:
    """Return the flags of a command line.

    Raises:
        CommandError: an unknown flag, an invalid value, or positional arguments.
    """
    values, given = read_flags(COMMAND, argv)
    return Flags(**values, given=given)

"""The flags of `kwait-scheduler`, grouped as in kube-scheduler.

The module has the types of values with the error messages of Go's flag library, then the parser
and the help text by group, then the flags.

Source: spf13/pflag; cmd/kube-scheduler/app/options.
"""

from __future__ import annotations

import difflib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click

from pytest_kwait.apimachinery.go_values import (
    INT32,
    parse_bool,
    parse_duration,
    parse_float,
    parse_int,
    parse_ip,
    quote_go,
)
from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.scheduler.command import CommandError
from pytest_kwait.scheduler.command.feature_gates import describe_gates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        name = error.option_name
        if not name.startswith("--"):  # the parser names the first letter alone
            name = next((arg for arg in argv if arg.startswith(name)), name)
        raise CommandError(_unknown_flag_error(command, name)) from None
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


_SIMILARITY = 0.8
"""Minimum similarity of a suggested name, from 0 to 1: a common prefix is not enough."""


def _unknown_flag_error(command: FlagCommand, name: str) -> str:
    known = [option for flag in command.params for option in flag.opts]
    if not name.startswith("--"):
        long = f"-{name.partition('=')[0]}".replace("_", "-")
        hint = f" (did you mean {long}?)" if long in known else ""
        return f"unknown shorthand flag: '{name.lstrip('-')[:1]}' in {name}{hint}"
    spelled = name.replace("_", "-")
    reason = NOT_SUPPORTED.get(spelled.removeprefix("--")) if command is COMMAND else None
    if reason is not None:
        return f"{PROGRAM} does not support kube-scheduler's flag {spelled}: {reason}"
    near = difflib.get_close_matches(spelled, known, n=1, cutoff=_SIMILARITY)
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

_ABOUT = """Assigns pending pods to nodes.

The scheduler of pytest-kwait takes the pods that name it, filters the nodes by its predicates,
scores them by its priorities and binds each pod to the best. Its flags and its configuration are
those of Kubernetes' scheduler; several may run at once, each for the scheduler names of its
profiles."""

_CONFIG_WINS = "The flag wins over the configuration file."

_FRONT_PROXY = "user names in headers of a front proxy are ignored"
_ALL_METRICS = "all metrics are served as they are"
_ONE_STREAM = "logs go to stderr line by line"
NOT_SUPPORTED = {
    "allow-metric-labels": _ALL_METRICS,
    "allow-metric-labels-manifest": _ALL_METRICS,
    "disabled-metrics": _ALL_METRICS,
    "emulated-version": "it behaves as version 1.36",
    "log-json-info-buffer-size": _ONE_STREAM,
    "log-json-split-stream": _ONE_STREAM,
    "log-text-info-buffer-size": _ONE_STREAM,
    "log-text-split-stream": _ONE_STREAM,
    "min-compatibility-version": "it behaves as version 1.36",
    "requestheader-allowed-names": _FRONT_PROXY,
    "requestheader-client-ca-file": _FRONT_PROXY,
    "requestheader-extra-headers-prefix": _FRONT_PROXY,
    "requestheader-group-headers": _FRONT_PROXY,
    "requestheader-uid-headers": _FRONT_PROXY,
    "requestheader-username-headers": _FRONT_PROXY,
    "show-hidden-metrics-for-version": "it has no hidden metrics",
    "tls-curve-preferences": "the TLS library chooses the key exchange",
    "tls-sni-cert-key": "it serves one certificate: use --tls-cert-file and --tls-private-key-file",
    "vmodule": "verbosity is the same for all modules: use -v",
}
"""Flags of kube-scheduler that this program refuses, with the reason."""

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
        "Write the configuration from flags and file to this file, and exit.",
    ),
    Flag(
        _SERVING,
        "bind-address",
        IP,
        "0.0.0.0",  # noqa: S104 # the default of Kubernetes' scheduler, whose probes come from outside
        "Address of the secure port; 0.0.0.0 and :: are all addresses of both families.",
    ),
    Flag(
        _SERVING,
        "cert-dir",
        STRING,
        "",
        "Folder of the self-signed certificate; empty to hold it in memory. Ignored with"
        " --tls-cert-file and --tls-private-key-file.",
    ),
    Flag(
        _SERVING,
        "disable-http2-serving",
        BOOL,
        False,
        "Whether not to serve HTTP/2; no effect, since only HTTP/1.1 is served.",
    ),
    Flag(
        _SERVING,
        "http2-max-streams-per-connection",
        INT,
        0,
        "Maximum number of streams in an HTTP/2 connection; no effect, as only HTTP/1.1 is served.",
    ),
    Flag(
        _SERVING,
        "permit-address-sharing",
        BOOL,
        False,
        "Whether to listen with SO_REUSEADDR; no effect, since it always does.",
    ),
    Flag(
        _SERVING,
        "permit-port-sharing",
        BOOL,
        False,
        "Whether to listen with SO_REUSEPORT, so that several processes may share the port.",
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
        "File with the server's certificate, followed by its authorities. Without it and the key a"
        " self-signed certificate is created.",
    ),
    Flag(
        _SERVING,
        "tls-cipher-suites",
        STRINGS,
        (),
        "Cipher suites of TLS 1.2 and earlier, separated by commas, by their IANA names. Those of"
        " TLS 1.3 are always on. Without it the TLS library chooses.",
    ),
    Flag(
        _SERVING,
        "tls-min-version",
        STRING,
        "",
        "Minimum version of TLS: VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13. Without"
        " it, 1.2.",
    ),
    Flag(_SERVING, "tls-private-key-file", STRING, "", "File with the key of --tls-cert-file."),
    Flag(
        _AUTHENTICATION,
        "authentication-kubeconfig",
        STRING,
        "",
        "Kubeconfig of the API server that reviews tokens (create tokenreviews). Without it tokens"
        " are ignored, and requests without a client certificate are anonymous.",
    ),
    Flag(
        _AUTHENTICATION,
        "authentication-skip-lookup",
        BOOL,
        False,
        "Whether not to read the authorities of client certificates from the API server of"
        " --authentication-kubeconfig.",
    ),
    Flag(
        _AUTHENTICATION,
        "authentication-token-webhook-cache-ttl",
        DURATION,
        10.0,
        "How long the review of a token is cached.",
    ),
    Flag(
        _AUTHENTICATION,
        "authentication-tolerate-lookup-failure",
        BOOL,
        True,
        "Whether to serve without client certificates if reading their authorities fails.",
    ),
    Flag(
        _AUTHENTICATION,
        "client-ca-file",
        STRING,
        "",
        "File with the authorities of client certificates. A certificate's common name is the user,"
        " its organizations are the groups.",
    ),
    Flag(
        _AUTHORIZATION,
        "authorization-always-allow-paths",
        STRINGS,
        ("/healthz", "/readyz", "/livez"),
        "Paths that are served without authorization; a * at the end matches any suffix.",
    ),
    Flag(
        _AUTHORIZATION,
        "authorization-kubeconfig",
        STRING,
        "",
        "Kubeconfig of the API server that reviews access (create subjectaccessreviews). Without it"
        " only system:masters may read other paths than those that are always allowed.",
    ),
    Flag(
        _AUTHORIZATION,
        "authorization-webhook-cache-authorized-ttl",
        DURATION,
        10.0,
        "How long the review that allows a path is cached.",
    ),
    Flag(
        _AUTHORIZATION,
        "authorization-webhook-cache-unauthorized-ttl",
        DURATION,
        10.0,
        "How long the review that denies a path is cached.",
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
        "contention-profiling",
        BOOL,
        False,
        "DEPRECATED: whether to profile locks; must be false, since no profiles are served.",
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
        "kube-api-content-type",
        STRING,
        "application/json",
        "DEPRECATED: content type of requests to the API server; only the default one. "
        + _CONFIG_WINS,
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
        "DEPRECATED: the time after which an unschedulable pod is retried without any change.",
    ),
    Flag(
        _DEPRECATED,
        "port",
        INT,
        0,
        "DEPRECATED: port to serve plain HTTP on, without authentication; 0 serves none.",
    ),
    Flag(
        _DEPRECATED,
        "profiling",
        BOOL,
        False,
        "DEPRECATED: whether to serve profiles; must be false, since none are served.",
    ),
    Flag(
        _ELECTION,
        "leader-elect",
        BOOL,
        True,
        "Whether to become leader before scheduling; for replicas of one scheduler.",
    ),
    Flag(
        _ELECTION,
        "leader-elect-lease-duration",
        DURATION,
        15.0,
        "How long other candidates wait after the last renewal before they acquire the lease.",
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
        "Pause between attempts to acquire and to renew the lease.",
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
        "log-flush-frequency",
        DURATION,
        5.0,
        "Maximum time between flushes of the logs; each line is flushed at once.",
    ),
    Flag(_LOGS, "logging-format", STRING, "text", 'Format of the logs: "json" or "text".'),
    Flag(
        _LOGS,
        "v",
        INT32_FLAG,
        0,
        "Log level: 0 for the important steps, 2 for the configuration too, 4 and more for each"
        " step.",
        short="v",
    ),
    Flag(_GLOBAL, "help", BOOL, False, "Show this, and exit.", short="h"),
    Flag(_GLOBAL, "version", BOOL, False, "Show the version, and exit."),
)

_NOT_NEGATIVE = ("-ttl", "-pods-duration", "-flush-frequency", "-per-connection")

TLS_VERSIONS = {
    f"VersionTLS{digits}": getattr(ssl.TLSVersion, f"TLSv1{suffix}")
    for digits, suffix in (("10", ""), ("11", "_1"), ("12", "_2"), ("13", "_3"))
}
"""Values of `--tls-min-version`."""

_AES_SUITES = ("128_CBC_SHA", "128_CBC_SHA256", "128_GCM_SHA256", "256_CBC_SHA", "256_GCM_SHA384")
CIPHER_SUITES = {
    **dict.fromkeys(
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
    ),
    **{
        f"TLS_{prefix}WITH_AES_{rest}": (
            f"{openssl}AES{rest.replace('_CBC_', '-').replace('_', '-')}"
        )
        for prefix, openssl in (
            ("ECDHE_ECDSA_", "ECDHE-ECDSA-"),
            ("ECDHE_RSA_", "ECDHE-RSA-"),
            ("RSA_", ""),
        )
        for rest in _AES_SUITES
    },
    **{
        f"TLS_ECDHE_{kind}_WITH_CHACHA20_POLY1305{end}": f"ECDHE-{kind}-CHACHA20-POLY1305"
        for kind in ("ECDSA", "RSA")
        for end in ("", "_SHA256")
    },
}
"""OpenSSL's names of the values of `--tls-cipher-suites`; None for those of TLS 1.3.

Source: Go, crypto/tls cipher_suites.go, without RC4 and 3DES.
"""

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
    disable_http2_serving: bool
    http2_max_streams_per_connection: int
    permit_address_sharing: bool
    permit_port_sharing: bool
    secure_port: int
    tls_cert_file: str
    tls_cipher_suites: tuple[str, ...]
    tls_min_version: str
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
    contention_profiling: bool
    kube_api_burst: int
    kube_api_content_type: str
    kube_api_qps: float
    kubeconfig: str
    pod_max_in_unschedulable_pods_duration: float
    port: int
    profiling: bool
    leader_elect: bool
    leader_elect_lease_duration: float
    leader_elect_renew_deadline: float
    leader_elect_resource_lock: str
    leader_elect_resource_name: str
    leader_elect_resource_namespace: str
    leader_elect_retry_period: float
    feature_gates: tuple[str, ...]
    log_flush_frequency: float
    logging_format: str
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
        if self.tls_min_version and self.tls_min_version not in TLS_VERSIONS:
            errors.append(
                f"unknown tls version {quote_go(self.tls_min_version)}: "
                f"use {', '.join(TLS_VERSIONS)}"
            )
        errors += [
            f"Cipher suite {name} not supported or doesn't exist"
            for name in self.tls_cipher_suites
            if name not in CIPHER_SUITES
        ]
        if self.logging_format not in ("json", "text"):
            errors.append(
                f"format: Invalid value: {quote_go(self.logging_format)}: Unsupported log format: "
                "use json, text"
            )
        errors += [
            f"--{name} must not be negative"
            for name, value in self.pairs()
            if name.endswith(_NOT_NEGATIVE) and value < 0
        ]
        return errors

    def pairs(self) -> list[tuple[str, Any]]:
        """Return each flag with its value, sorted by name."""
        names = sorted(str(flag.name) for flag in _FLAGS)
        return [(name.replace("_", "-"), getattr(self, name)) for name in names]


def help_text() -> str:
    """Return the help, as wide as the terminal but at most 98 columns."""
    context = click.Context(COMMAND, info_name=PROGRAM, max_content_width=100)
    formatter = context.make_formatter()
    COMMAND.format_help(context, formatter)
    with formatter.section("Flags of kube-scheduler that are not supported"):
        formatter.write_dl([(f"--{name}", f"{why}.") for name, why in NOT_SUPPORTED.items()])
    return formatter.getvalue()


def parse_flags(argv: Sequence[str]) -> Flags:
    """Return the flags of a command line.

    Raises:
        CommandError: an unknown flag, an invalid value, or positional arguments.
    """
    values, given = read_flags(COMMAND, argv)
    return Flags(**values, given=given)

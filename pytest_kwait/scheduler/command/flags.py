"""The flags of `kwait-scheduler`, grouped as in kube-scheduler.

The module has the types of values with the error messages of Go's flag library, then the flags,
then the help text by group and the parser.

Source: spf13/pflag; cmd/kube-scheduler/app/options.
"""

from __future__ import annotations

import difflib
import shutil
import ssl
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from pytest_kwait.scheduler.command.verflag import parse_version_flag, shown_version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRAM = "kwait-scheduler"

SECURE_PORT = 10259

TLS_VERSIONS = {
    f"VersionTLS{digits}": getattr(ssl.TLSVersion, f"TLSv1{suffix}")
    for digits, suffix in (("10", ""), ("11", "_1"), ("12", "_2"), ("13", "_3"))
}
"""Values of `--tls-min-version`."""

_HELP_COLUMNS = 100
"""Columns of a terminal beyond which the help is not wider."""
_NAME_COLUMNS = 30
"""Columns of a name in the help; a longer one has a line of its own."""

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

_SIMILARITY = 0.8
"""Minimum similarity of a suggested name, from 0 to 1: a common prefix is not enough."""

_NOT_NEGATIVE = ("-ttl", "-pods-duration", "-flush-frequency", "-per-connection")

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


@dataclass(frozen=True, slots=True)
class FlagType:
    """A type of flag values.

    Args:
        name: its name in the help.
        parse: converts the text; raises ValueError with the reason.
    """

    name: str
    parse: Callable[[str], Any]


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
VERSION = FlagType("version", parse_version_flag)
"""Without a value it is true; each value has its effect, a version to report or what to show."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of a group.

    Args:
        group: its heading in the help.
        name: its name, with dashes; underscores are equivalent.
        kind: the type of its value.
        default: its default value.
        help: its description.
        short: an equivalent single letter; empty for none.
    """

    group: str
    name: str
    kind: FlagType
    default: Any
    help: str
    short: str = ""

    @property
    def field(self) -> str:
        """Its name in `Flags`."""
        return self.name.replace("-", "_")

    @property
    def options(self) -> tuple[str, ...]:
        """Its spellings, the short one first."""
        return (*([f"-{self.short}"] if self.short else []), f"--{self.name}")

    def convert(self, text: str) -> Any:
        """Return the value of a text.

        Raises:
            CommandError: in the words of Go's flag library.
        """
        try:
            return self.kind.parse(text)
        except ValueError as error:
            names = ", ".join(self.options)
            raise CommandError(
                f'invalid argument {quote_go(text)} for "{names}" flag: {error}'
            ) from None

    def describe(self) -> tuple[str, str]:
        """Return its names with the type of its value, and its description."""
        names = ", ".join(self.options)
        names_text = names if self.kind is BOOL else f"{names} {self.kind.name}"
        if self.kind is VERSION:
            names_text += "[=true]"
        default = self._format_default()
        return names_text, self.help + (f" (default {default})" if default else "")

    def _format_default(self) -> str:
        value = self.default
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
            if self.kind is STRING
            else f"{value:g}"
            if isinstance(value, float)
            else str(value)
        )


FLAGS = (
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
    Flag(
        _GLOBAL,
        "version",
        VERSION,
        (),
        "Show the version, and exit; with raw all facts of it. With vX.Y.Z... report that version.",
    ),
)


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
    version: tuple[str, ...]
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
        values = [(flag.name, getattr(self, flag.field)) for flag in sorted(FLAGS, key=_flag_field)]
        return [
            (name, shown_version(value) if name == "version" else value) for name, value in values
        ]


def help_text() -> str:
    """Return the help, as wide as the terminal but at most 98 columns."""
    width = max(min(shutil.get_terminal_size().columns, _HELP_COLUMNS) - 2, 50)
    paragraphs = [f"Usage: {PROGRAM} [flags]"]
    for text in _ABOUT.split("\n\n"):
        indent = "  "
        paragraphs.append(
            textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)
        )
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        flags = sorted((flag for flag in FLAGS if flag.group == group), key=_flag_field)
        title = f"{group[:1].upper()}{group[1:]} flags"
        paragraphs.append(_format_section(title, [flag.describe() for flag in flags], width))
    missing = [(f"--{name}", f"{why}.") for name, why in NOT_SUPPORTED.items()]
    paragraphs.append(
        _format_section("Flags of kube-scheduler that are not supported", missing, width)
    )
    return "\n\n".join(paragraphs) + "\n"


def _format_section(title: str, rows: Sequence[tuple[str, str]], width: int) -> str:
    """Return rows in two columns below a title."""
    name_width = min(max(len(names) for names, _ in rows), _NAME_COLUMNS)
    indent = " " * (name_width + 4)
    lines = [f"{title}:"]
    for names, text in rows:
        first, *rest = textwrap.wrap(text, max(width - len(indent), 10))
        if len(names) <= name_width:
            lines.append(f"  {names:{name_width}}  {first}")
        else:
            lines += [f"  {names}", indent + first]
        lines += [indent + line for line in rest]
    return "\n".join(lines)


def _flag_field(flag: Flag) -> str:
    return flag.field


def parse_flags(argv: Sequence[str]) -> Flags:
    """Return the flags of a command line.

    Args:
        argv: the arguments without the program's name.

    Raises:
        CommandError: an unknown flag, an invalid value, or positional arguments.

    Source: the flag library of Go's programs, github.com/spf13/pflag (its wording), and
    component-base cli/flag/flags.go WordSepNormalizeFunc.
    """
    texts, positional = _split_argv(argv)
    values: dict[str, Any] = {flag.field: flag.default for flag in FLAGS}
    for flag, flag_texts in texts.items():
        if flag.kind is VERSION:
            values[flag.field] = tuple(map(flag.convert, flag_texts))
        elif flag.kind is STRINGS:
            values[flag.field] = tuple(part for text in flag_texts for part in flag.convert(text))
        else:
            values[flag.field] = flag.convert(flag_texts[-1])
    if any(positional):
        arguments_text = " ".join(map(quote_go, positional))
        raise CommandError(
            f"{quote_go(PROGRAM)} does not take any arguments, got [{arguments_text}]"
        )
    return Flags(**values, given=frozenset(flag.field for flag in texts))


def _split_argv(argv: Sequence[str]) -> tuple[dict[Flag, list[str]], list[str]]:
    """Return the texts of each given flag, and positional arguments.

    Not by `argparse`: in Go the value of a flag is the next argument whatever its form, and a
    boolean flag never takes the next argument.
    """
    flags = {option: flag for flag in FLAGS for option in flag.options}
    texts: dict[Flag, list[str]] = {}
    positional: list[str] = []
    rest = iter(argv)
    for arg in rest:
        if arg == "--":
            positional += rest
            break
        if not arg.startswith("-") or arg == "-":
            positional.append(arg)
            continue
        if arg.startswith("--"):
            name, equals, value = arg.partition("=")
            name = f"--{name[2:].replace('_', '-')}"
        else:
            # `-v=2` and `-v2` are equivalent.
            name, equals, value = arg[:2], arg[2:3], arg[2:].removeprefix("=")
        flag = flags.get(name)
        if flag is None:
            raise CommandError(_unknown_flag_error(name if name.startswith("--") else arg))
        if not equals:
            following = "true" if flag.kind in (BOOL, VERSION) else next(rest, None)
            if following is None:
                flag_text = name if name.startswith("--") else f"'{name[1:]}' in {name}"
                raise CommandError(f"flag needs an argument: {flag_text}")
            value = following
        texts.setdefault(flag, []).append(value)
    return texts, positional


def _unknown_flag_error(name: str) -> str:
    known = [option for flag in FLAGS for option in reversed(flag.options)]
    if not name.startswith("--"):
        long = f"-{name.partition('=')[0]}".replace("_", "-")
        hint = f" (did you mean {long}?)" if long in known else ""
        return f"unknown shorthand flag: '{name[1:2]}' in {name}{hint}"
    reason = NOT_SUPPORTED.get(name.removeprefix("--"))
    if reason is not None:
        return f"{PROGRAM} does not support kube-scheduler's flag {name}: {reason}"
    near = difflib.get_close_matches(name, known, n=1, cutoff=_SIMILARITY)
    return f"unknown flag: {name}" + (f" (did you mean {near[0]}?)" if near else "")

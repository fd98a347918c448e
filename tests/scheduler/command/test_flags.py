from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from pytest_kwait.scheduler.command import CommandError
from pytest_kwait.scheduler.command.flags import (
    CIPHER_SUITES,
    FLAGS,
    NOT_SUPPORTED,
    Flags,
    help_text,
    parse_flags,
)

HELP = Path(__file__).parent / "help.txt"


def given(*argv: str) -> dict[str, object]:
    flags = parse_flags(argv)
    return {name: getattr(flags, name) for name in sorted(flags.given)}


def test_help_shows_the_flags_in_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert help_text() == HELP.read_text()


def test_defaults_match_kube_scheduler() -> None:
    assert parse_flags([]) == Flags(
        config="",
        master="",
        write_config_to="",
        bind_address="0.0.0.0",
        cert_dir="",
        disable_http2_serving=False,
        http2_max_streams_per_connection=0,
        permit_address_sharing=False,
        permit_port_sharing=False,
        secure_port=10259,
        tls_cert_file="",
        tls_cipher_suites=(),
        tls_min_version="",
        tls_private_key_file="",
        authentication_kubeconfig="",
        authentication_skip_lookup=False,
        authentication_token_webhook_cache_ttl=10,
        authentication_tolerate_lookup_failure=True,
        client_ca_file="",
        authorization_always_allow_paths=("/healthz", "/readyz", "/livez"),
        authorization_kubeconfig="",
        authorization_webhook_cache_authorized_ttl=10,
        authorization_webhook_cache_unauthorized_ttl=10,
        address="127.0.0.1",
        contention_profiling=False,
        kube_api_burst=100,
        kube_api_content_type="application/json",
        kube_api_qps=50,
        kubeconfig="",
        pod_max_in_unschedulable_pods_duration=300,
        port=0,
        profiling=False,
        leader_elect=True,
        leader_elect_lease_duration=15,
        leader_elect_renew_deadline=10,
        leader_elect_resource_lock="leases",
        leader_elect_resource_name="kube-scheduler",
        leader_elect_resource_namespace="kube-system",
        leader_elect_retry_period=2,
        feature_gates=(),
        log_flush_frequency=5,
        logging_format="text",
        v=0,
        help=False,
        version=(),
        given=frozenset(),
    )


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--leader-elect-lease-duration=1m30s"], {"leader_elect_lease_duration": 90.0}),
        (["--leader_elect_lease_duration", "20s"], {"leader_elect_lease_duration": 20.0}),
        (["--leader-elect_retry-period=500ms"], {"leader_elect_retry_period": 0.5}),
        (["--leader-elect"], {"leader_elect": True}),
        (["--leader_elect"], {"leader_elect": True}),
        (["--leader-elect=false"], {"leader_elect": False}),
        (["--leader_elect=F"], {"leader_elect": False}),
        (["--leader-elect", "--v", "3"], {"leader_elect": True, "v": 3}),
        (["--config", "--leader-elect"], {"config": "--leader-elect"}),
        (["--config=a_b"], {"config": "a_b"}),
        (["-v=2"], {"v": 2}),
        (["-v2"], {"v": 2}),
        (["-v", "0x10"], {"v": 16}),
        (["-h"], {"help": True}),
        (["--v=1", "--v=2"], {"v": 2}),
        (["-h=true"], {"help": True}),
        (["--master=--"], {"master": "--"}),
        (["--secure-port=0"], {"secure_port": 0}),
        (["--bind-address=::1"], {"bind_address": "::1"}),
        (["--kube-api-qps=12.5"], {"kube_api_qps": 12.5}),
        (
            ["--authorization-always-allow-paths=/a,/b", "--authorization_always_allow_paths=/c"],
            {"authorization_always_allow_paths": ("/a", "/b", "/c")},
        ),
        (["--authorization-always-allow-paths="], {"authorization_always_allow_paths": ()}),
        (["--feature-gates=A=true,B=false"], {"feature_gates": ("A=true", "B=false")}),
        (["--", ""], {}),
    ],
)
def test_valid_flag_is_parsed(argv: list[str], expected: dict[str, object]) -> None:
    assert given(*argv) == expected


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--bogus"], "unknown flag: --bogus"),
        (["--secure_prt=1"], "unknown flag: --secure-prt (did you mean --secure-port?)"),
        (["--leader-elected"], "unknown flag: --leader-elected (did you mean --leader-elect?)"),
        (
            ["--tls-max-version=x"],
            "unknown flag: --tls-max-version (did you mean --tls-min-version?)",
        ),
        (["--tls-anything=x"], "unknown flag: --tls-anything"),
        (["--kube"], "unknown flag: --kube"),
        (
            ["--vmodule=a=2"],
            "kwait-scheduler does not support kube-scheduler's flag --vmodule: verbosity is the "
            "same for all modules: use -v",
        ),
        (
            ["--requestheader_client_ca_file", "x"],
            "kwait-scheduler does not support kube-scheduler's flag "
            "--requestheader-client-ca-file: user names in headers of a front proxy are ignored",
        ),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (
            ["-kubeconfig", "x"],
            "unknown shorthand flag: 'k' in -kubeconfig (did you mean --kubeconfig?)",
        ),
        (["--config"], "flag needs an argument: --config"),
        (["-v"], "flag needs an argument: 'v' in -v"),
        (
            ["--leader-elect=maybe"],
            'invalid argument "maybe" for "--leader-elect" flag: '
            'strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            ["--secure-port=abc"],
            'invalid argument "abc" for "--secure-port" flag: '
            'strconv.ParseInt: parsing "abc": invalid syntax',
        ),
        (
            ["--kube-api-burst=4294967296"],
            'invalid argument "4294967296" for "--kube-api-burst" flag: '
            'strconv.ParseInt: parsing "4294967296": value out of range',
        ),
        (
            ["--kube-api-qps=many"],
            'invalid argument "many" for "--kube-api-qps" flag: '
            'strconv.ParseFloat: parsing "many": invalid syntax',
        ),
        (
            ["--leader-elect-retry-period=2"],
            'invalid argument "2" for "--leader-elect-retry-period" flag: '
            'time: missing unit in duration "2"',
        ),
        (
            ["--bind-address=here"],
            'invalid argument "here" for "--bind-address" flag: failed to parse IP: "here"',
        ),
        (
            ["-v=x"],
            'invalid argument "x" for "-v, --v" flag: '
            'strconv.ParseInt: parsing "x": invalid syntax',
        ),
        (["a", "b c"], '"kwait-scheduler" does not take any arguments, got ["a" "b c"]'),
        (
            ["--leader-elect", "false"],
            '"kwait-scheduler" does not take any arguments, got ["false"]',
        ),
    ],
)
def test_invalid_flag_is_refused(argv: list[str], error: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_flags(argv)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("argv", "errors"),
    [
        (
            ["--secure-port=70000"],
            [
                "--secure-port 70000 must be between 0 and 65535, inclusive."
                " 0 for turning off secure port"
            ],
        ),
        (
            ["--port=-1"],
            [
                "--port -1 must be between 0 and 65535, inclusive."
                " 0 for turning off insecure (HTTP) port"
            ],
        ),
        (["--port=10259"], ["--port 10259 must differ from --secure-port"]),
        (["--port=0", "--secure-port=0"], []),
        (["--authorization-always-allow-paths=/a*b"], ['only trailing * allowed in "a*b"']),
        (["--authorization-always-allow-paths=/a*"], []),
        (["--tls-cert-file=a"], ["missing filename for serving key"]),
        (["--tls-private-key-file=a"], ["missing filename for serving cert"]),
        (
            ["--tls-min-version=VersionTLS99"],
            [
                'unknown tls version "VersionTLS99": use VersionTLS10, VersionTLS11, '
                "VersionTLS12, VersionTLS13"
            ],
        ),
        (["--tls-min-version=VersionTLS13"], []),
        (
            ["--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA,X"],
            ["Cipher suite X not supported or doesn't exist"],
        ),
        (
            ["--logging-format=xml"],
            ['format: Invalid value: "xml": Unsupported log format: use json, text'],
        ),
        (
            ["--http2-max-streams-per-connection=-1"],
            ["--http2-max-streams-per-connection must not be negative"],
        ),
        (
            ["--authentication-token-webhook-cache-ttl=-1s"],
            ["--authentication-token-webhook-cache-ttl must not be negative"],
        ),
    ],
)
def test_flags_are_validated(argv: list[str], errors: list[str]) -> None:
    assert parse_flags(argv).errors() == errors


def test_all_cipher_suites_are_known_to_the_tls_library() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in filter(None, CIPHER_SUITES.values()):
        context.set_ciphers(f"{name}:@SECLEVEL=0")
        assert name in {each["name"] for each in context.get_ciphers()}


def test_flags_that_are_not_supported_are_no_flags() -> None:
    own = {option for flag in FLAGS for option in flag.options}
    assert not own & {f"--{name}" for name in NOT_SUPPORTED}


if __name__ == "__main__":
    HELP.write_text(help_text())  # in a terminal of 100 columns or more

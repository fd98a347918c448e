"""Environments that stay, in runs of pytest on a cluster that is a dictionary and outlives them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

Log = Callable[[], str]

_CONFTEST = """
import json
import os
import sys
from pathlib import Path

import pytest
import pytest_kwait

sys.path.append(os.environ["FAKE_PATH"])

from pytest_kwait.errors import ApiError
from tests.suite.fakes import FakeCluster

_STATE = Path(__file__).with_name(".state")


@pytest.fixture(scope="session")
def kwait_cluster():
    cluster = FakeCluster(Path(os.environ["FAKE_LOG"]), time_scale=0.1)
    cluster.provider = os.environ.get("FAKE_PROVIDER", "fake")
    if _STATE.exists():
        cluster.transport.objects.update(json.loads(_STATE.read_text()))
        cluster.transport._count = 1000
    if "REFUSED" in os.environ:
        for path in [path for path in cluster.transport.objects if "namespaces/t-shop" in path]:
            cluster.transport.refuse("DELETE", path, ApiError("no", status=403, reason="Forbidden"))
    yield cluster
    # The Lease of the run goes after its last fixture.
    objects = {
        path: obj
        for path, obj in cluster.transport.objects.items()
        if "/leases/" not in path or "environments" in path
    }
    _STATE.write_text(json.dumps(objects))


@pytest.fixture(scope="session")
def title():
    return os.environ.get("TITLE", "a")


@pytest_kwait.environment(scope="SCOPE")
def shop(kwait, title):
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    if title == "":
        raise ValueError("no title")
    yield kwait, {"port": (1, 2)}
"""
_TEST = """
def test_it(shop):
    kwait, values = shop
    assert values == {"port": [1, 2]}
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-the-test"}})
    kwait.create_namespace("beside")
"""


@pytest.fixture
def run(
    pytester: pytest.Pytester, fake_cluster: Log, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Run the suite once more."""
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(test_it=_TEST)

    def once(*options: str, scope: str = "cluster", error: str = "") -> pytest.RunResult:
        pytester.makeconftest(_CONFTEST.replace("SCOPE", scope))
        result = pytester.runpytest("--kwait-no-janitor", *options)
        if error:
            result.assert_outcomes(errors=1)
            assert re.search(error, result.stdout.str())
        else:
            result.assert_outcomes(passed=1)
        return result

    return once


def _notes(result: pytest.RunResult) -> list[str]:
    start = "kwait: environment"
    return [line.removeprefix(start) for line in result.stdout.lines if line.startswith(start)]


def _writes(log: str, kind: str) -> list[str]:
    """Return the writes of namespaces or config maps, their names without generated parts."""
    lines = re.sub(r"(t-[a-z-]+)-[b-z2-9]{5}", r"\1", log).splitlines()
    return [line for line in lines if line.rpartition("/")[0].endswith(kind) or line.endswith(kind)]


def test_the_next_run_uses_the_environment_without_its_function(
    run: Callable[..., pytest.RunResult], fake_cluster: Log
) -> None:
    assert _notes(run()) == [" shop: made, stays 24h0m0s after its last use"]
    first = fake_cluster()
    # What a test creates by it ends with the session; the environment stays.
    assert _writes(first, "configmaps") == [
        "POST /api/v1/namespaces/t-shop/configmaps",
        "POST /api/v1/namespaces/t-shop/configmaps",
        "DELETE /api/v1/namespaces/t-shop/configmaps/of-the-test",
    ]
    assert _writes(first, "/namespaces") == [
        "POST /api/v1/namespaces",
        "POST /api/v1/namespaces",
        "DELETE /api/v1/namespaces/t-beside-shop",
    ]
    [note] = _notes(run("--kwait-keep=always"))
    assert re.fullmatch(r" shop: reused, made \S+ ago", note)
    again = fake_cluster().removeprefix(first)
    assert len([line for line in _writes(again, "configmaps") if line.startswith("POST")]) == 1


@pytest.mark.parametrize(
    ("variable", "options", "reason"),
    [
        ("TITLE", (), "the value of fixture title has changed"),
        ("", ("--kwait-renew",), "--kwait-renew asks for it"),
        ("", ("--kwait-pod-security=baseline",), "--kwait-pod-security has changed"),
    ],
)
def test_an_environment_whose_inputs_have_changed_is_made_again(
    run: Callable[..., pytest.RunResult],
    fake_cluster: Log,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    options: tuple[str, ...],
    reason: str,
) -> None:
    run("--kwait-reuse-for=30m")
    first = fake_cluster()
    if variable:
        monkeypatch.setenv(variable, "b")
    assert _notes(run(*options)) == [f" shop: made again: {reason}"]
    again = _writes(fake_cluster().removeprefix(first), "/namespaces")
    # The old one first.
    assert again[:2] == ["DELETE /api/v1/namespaces/t-shop", "POST /api/v1/namespaces"]


def test_an_environment_that_could_not_be_made_is_made_by_the_next_run(
    run: Callable[..., pytest.RunResult], fake_cluster: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TITLE", "")
    assert _notes(run(error="ValueError: no title")) == []
    assert _writes(fake_cluster(), "/namespaces") == [
        "POST /api/v1/namespaces",
        "DELETE /api/v1/namespaces/t-shop",
    ]
    monkeypatch.delenv("TITLE")
    assert _notes(run()) == [" shop: made, stays 24h0m0s after its last use"]


def test_none_is_made_beside_an_old_one_that_cannot_be_removed(
    run: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    monkeypatch.setenv("REFUSED", "true")
    error = (
        r"what an earlier run has made of this environment is not removed: "
        r"namespaces/t-shop-\w+ could not be deleted: "
    )
    run("--kwait-renew", error=error)


@pytest.mark.parametrize(
    ("scope", "environment", "options", "stays"),
    [
        ("cluster", {"CI": "true"}, (), False),
        ("cluster", {"CI": "true"}, ("--kwait-reuse=always",), True),
        ("cluster", {}, ("--kwait-reuse=never",), False),
        ("run", {}, (), False),
        ("run", {}, ("--kwait-reuse=always",), True),
        ("module", {}, ("--kwait-reuse=always",), False),
    ],
)
def test_the_setting_says_which_environments_stay(
    run: Callable[..., pytest.RunResult],
    monkeypatch: pytest.MonkeyPatch,
    scope: str,
    environment: dict[str, str],
    options: tuple[str, ...],
    stays: bool,
    pytester: pytest.Pytester,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if scope == "module":
        pytester.makepyfile(test_it="def test_it(shop):\n    pass\n")
    assert bool(_notes(run(*options, scope=scope))) is stays


@pytest.mark.parametrize(
    ("provider", "options", "why"),
    [
        (
            "embedded",
            (),
            "the embedded cluster ends with the run; `kwait up` starts one that stays, for "
            "--kwait-kubeconfig",
        ),
        (
            "fake",
            ("--kwait-namespace=default",),
            "with --kwait-namespace they have no namespace of their own",
        ),
    ],
)
def test_a_line_says_why_none_can_stay(
    run: Callable[..., pytest.RunResult],
    monkeypatch: pytest.MonkeyPatch,
    pytester: pytest.Pytester,
    provider: str,
    options: tuple[str, ...],
    why: str,
) -> None:
    monkeypatch.setenv("FAKE_PROVIDER", provider)
    pytester.makepyfile(test_it="def test_it(shop):\n    pass\n")
    if options:
        text = '{"/api/v1/namespaces/default": {"metadata": {"name": "default", "uid": "u"}}}'
        (pytester.path / ".state").write_text(text)
    assert _notes(run(*options)) == [f"s do not stay: {why}"]

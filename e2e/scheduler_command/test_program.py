"""One scheduler: configuration, start, metrics and stop."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING, Any

import kubernetes.client
import pytest
import yaml

from e2e.scheduler_command.conftest import LEASE
from e2e.scheduler_command.programs import Caller, Program, command_line, fetch, free_port
from e2e.service_accounts import bind
from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from e2e.scheduler_command.conftest import Site

REVIEWS = ("authentication", "authorization")


def account(site: Site, name: str) -> Caller:
    """Make a service account and return it as a caller."""
    core = kubernetes.client.CoreV1Api(site.kwait.client)
    site.kwait.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    request: Any = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer: Any = core.create_namespaced_service_account_token(name, site.kwait.namespace, request)
    return Caller(answer.status.token)


@pytest.fixture
def metrics_role(site: Site) -> Iterator[str]:
    """Let the service account `reader` read metrics."""
    name, namespace = f"metrics-{site.kwait.namespace}", site.kwait.namespace
    group = "rbac.authorization.k8s.io"
    site.kwait.create(
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
        },
    )
    yield name
    for kind in ("clusterrole", "clusterrolebinding"):
        site.kwait.delete(f"{kind}/{name}")


def test_scheduler_lifecycle(site: Site) -> None:
    written = site.folder / "written.yaml"
    reviews = [f"--{review}-kubeconfig={site.kubeconfig}" for review in REVIEWS]

    # The configuration is written, and means the same when it is read back.
    config = f"--config={site.configuration()}"
    subprocess.run(
        command_line(*site.flags, config, f"--write-config-to={written}"), check=True, timeout=240
    )
    again = site.folder / "again.yaml"
    subprocess.run(
        command_line(f"--config={written}", f"--write-config-to={again}"), check=True, timeout=240
    )
    assert again.read_text() == written.read_text()

    # It fills its caches, leads, and places the pods that name it.
    program = site.start(f"--config={written}", *reviews)
    program.until_ready()
    site.holder()
    site.place("web")

    # Health is public; metrics need a right.
    assert program.get("/healthz?verbose") == (
        200,
        "[+]leaderElection ok\nhealthz check passed\n",
    )
    admin = Caller.of(site.kwait.client)
    metrics = program.until("/metrics", "schedule_attempts_total.*scheduled", admin)
    scheduled = f'{{profile="{site.scheduler}",result="scheduled"}} 1.0'
    assert f"scheduler_schedule_attempts_total{scheduled}" in metrics
    assert 'scheduler_pending_pods{queue="active"} 0.0' in metrics
    assert f'leader_election_master_status{{name="{LEASE}"}} 1.0' in metrics
    assert site.scheduler in program.get("/configz", admin)[1]
    nobody, stranger, other = Caller(), Caller("unknown"), account(site, "other")
    assert program.get("/metrics", stranger)[0] == 401
    assert program.get("/metrics", nobody)[0] == 403
    status, text = program.get("/metrics", other)
    assert status == 403
    assert f'serviceaccount:{site.kwait.namespace}:other\\" cannot get path' in text

    # On SIGTERM it releases its lease.
    program.terminate()
    assert program.ended() == 0, program.log
    assert not site.kwait.get(f"lease/{LEASE}")["spec"].get("holderIdentity")


@pytest.mark.usefixtures("metrics_role")
def test_a_role_opens_the_metrics(site: Site) -> None:
    reader = account(site, "reader")
    program = site.start(
        *(f"--{review}-kubeconfig={site.kubeconfig}" for review in REVIEWS),
        "--authorization-webhook-cache-unauthorized-ttl=0s",
        "--leader-elect=false",
        f"--config={site.configuration()}",
    )
    program.until("/metrics", "^scheduler_pending_pods", reader)
    assert program.get("/configz", reader)[0] == 403


def test_several_names_without_an_election(site: Site) -> None:
    names = [f"{site.scheduler}-{letter}" for letter in "ab"]
    profiles = ", ".join(f"{{schedulerName: {name}}}" for name in names)
    port = free_port()
    program = site.start(
        f"--config={site.configuration(f'profiles: [{profiles}]')}",
        "--leader-elect=false",
        f"--port={port}",
        "--feature-gates=ComponentFlagz=false",
    )
    program.until_ready()
    for number, name in enumerate(names):
        site.place(f"web-{number}", name)
    # Without delegated authentication only health is public; the insecure port serves everything.
    assert program.get("/metrics", Caller("unknown"))[0] == 403
    lines = [
        f'schedule_attempts_total{{profile="{name}",result="scheduled"}} 1.0' for name in names
    ]

    def is_counted() -> bool:
        _, metrics = fetch(f"http://127.0.0.1:{port}/metrics")
        return all(line in metrics for line in lines)

    # An attempt is counted a moment after its pod has a node.
    wait.poll_immediate("100ms", "1m", is_counted)
    program.terminate(signal.SIGINT)
    assert program.ended() == 0, program.log
    assert not site.kwait.list("lease")


@pytest.mark.own_cluster
def test_health_is_served_before_there_is_a_cluster(tmp_path: Path) -> None:
    program = Program(tmp_path / "log", f"--master=127.0.0.1:{free_port()}")
    try:
        program.until("/livez", "^ok$")
        assert program.get("/readyz") == (
            500,
            "[+]leaderElection ok\n[+]shutdown ok\n"
            "[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n",
        )
        # Health is served by another thread, which may be first.
        line = 'Waiting for caches to sync controller="kwait-scheduler"\n'
        wait.poll_immediate("100ms", "1m", lambda: line in program.log)
        program.terminate()
        assert program.ended() == 0, program.log
    finally:
        program.stop()


def test_it_goes_on_until_it_gets_its_rights(site: Site) -> None:
    """Its first lists are refused with 403; it lists again after a pause."""
    kubeconfig = site.kwait.kubeconfig_for("default")
    program = site.start(
        f"--kubeconfig={kubeconfig}",
        f"--config={site.configuration()}",
        "--leader-elect=false",
    )
    refused = "Failed to list pods: GET /api/v1/pods: 403 Forbidden: "
    wait.poll_immediate("100ms", "4m", lambda: program.log.count(refused) > 1)
    assert program.get("/readyz")[0] == 500

    bind(site.kwait, "system:kube-scheduler", everywhere=True)
    program.until_ready()
    site.place("web")
    program.terminate()
    assert program.ended() == 0, program.log


def test_it_goes_on_with_an_unknown_token(site: Site) -> None:
    content = yaml.safe_load(site.kubeconfig.read_text())
    for user in content["users"]:
        user["user"] = {"token": "unknown"}
    kubeconfig = site.folder / "unknown"
    kubeconfig.write_text(yaml.safe_dump(content))
    program = site.start(f"--kubeconfig={kubeconfig}", "--leader-elect=false")
    refused = "Failed to list pods: GET /api/v1/pods: 401 Unauthorized: "
    wait.poll_immediate("100ms", "4m", lambda: program.log.count(refused) > 1)
    program.terminate()
    assert program.ended() == 0, program.log


@pytest.mark.own_cluster
@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--secure_prot=1"], "unknown flag: --secure-prot (did you mean --secure-port?)"),
        (
            ["--leader-elect-lease-duration=1s", "--kube-api-burst=-1"],
            "[clientConnection.burst: Invalid value: -1: must be non-negative,"
            ' leaderElection.leaseDuration: Invalid value: "1s": must be greater than'
            " `RenewDeadline`]",
        ),
        (["--kubeconfig=/nowhere/x"], "stat /nowhere/x: no such file or directory"),
    ],
)
def test_invalid_configuration_is_one_line(flags: list[str], error: str) -> None:
    ended = subprocess.run(
        command_line(*flags), capture_output=True, text=True, timeout=240, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert [line for line in ended.stderr.splitlines() if line[0] not in "IW"] == [
        f"Error: {error}"
    ]

"""helm: its arguments, what it has recorded, the objects of a release, the messages of failures.

The helm of these tests is a shell script; the one of `e2e/helm` is Helm's own.
"""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import Resource
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import async_sleep
from pytest_kwait.errors import (
    ClusterError,
    InvalidArgument,
    KwaitError,
    WaitFailed,
    WaitTimeout,
)
from pytest_kwait.suite.helm import releases
from pytest_kwait.suite.helm.program import HelmError, HelmResult
from pytest_kwait.suite.helm.records import HelmHook, HelmRelease, describe_installed
from pytest_kwait.suite.manifests import InvalidManifest
from pytest_kwait.wait.context import Canceled
from tests.objects import condition, definition, served_version
from tests.suite.fakes import FakeCluster
from tests.suite.test_kwait import make_kwait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait

OWNED = {"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "ci-1"}
ROLE = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shop}
"""
CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False
)
WEB = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 1, selector: {matchLabels: {app: web}}}
"""
JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: migration}
"""
ROLE_PATH = "/apis/rbac.authorization.k8s.io/v1/clusterroles/shop"
WEB_PATH = "/apis/apps/v1/namespaces/ci-1/deployments/web"
JOB_PATH = "/apis/batch/v1/namespaces/ci-1/jobs/migration"
SECRETS_PATH = "/api/v1/namespaces/ci-1/secrets"
ROLLED_OUT = {
    "observedGeneration": 1,
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
}


def hook(phase: str, kind: str = "Job") -> dict[str, Any]:
    return {
        "name": "migration",
        "kind": kind,
        "manifest": JOB,
        "events": ["pre-install"],
        "last_run": {"phase": phase},
    }


def record(manifest: str = "", *hooks: dict[str, Any], **info: str) -> dict[str, Any]:
    return {
        "name": "shop",
        "version": 1,
        "manifest": manifest,
        "hooks": list(hooks),
        "info": {"status": "deployed", **info},
    }


class FakeHelm:
    """A helm that is a shell script; it writes its arguments down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "bin" / "helm"
        self.program.parent.mkdir()
        self.does()

    def does(self, script: str = "true", crds: str = "") -> None:
        """Run a script for each command that changes a release or renders a chart."""
        (self.folder / "crds.yaml").write_text(crds)
        self.program.write_text(
            f"""#!/bin/sh
cd {self.folder}
for argument in "$@"; do printf '%s\\n' "$argument" >> calls; done
echo >> calls
case "$1" in
  status) cat status.json 2> /dev/null && exit
    echo 'Error: release: not found' >&2; exit 1;;
  get) echo '{{"chart": "shop", "version": "0.1.0", "appVersion": "2.5"}}';;
  show) cat crds.yaml;;
  *) {script};;
esac
"""
        )
        self.program.chmod(0o755)

    def has(self, recorded: dict[str, Any]) -> None:
        """Know a release."""
        (self.folder / "status.json").write_text(json.dumps(recorded))

    def calls(self) -> list[list[str]]:
        """Return the arguments of all commands."""
        texts = (self.folder / "calls").read_text().split("\n\n")
        return [text.splitlines() for text in texts if text]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHelm:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return FakeHelm(tmp_path)


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.transport.defined.append(CLUSTER_ROLES)
    return made


@pytest.fixture
def kwait(tmp_path: Path, cluster: FakeCluster) -> Iterator[Kwait]:
    made = make_kwait(cluster, tmp_path, owned=True)
    ApiSession.of(made.client).kubectl_args = ("--kubeconfig", "/run/config", "--context", "ours")
    (tmp_path / "chart").mkdir()
    yield made
    made.close()


def has(cluster: FakeCluster, path: str, obj: dict[str, Any]) -> None:
    """Let an object be in the cluster."""
    obj["metadata"].setdefault("uid", f"uid-{obj['metadata']['name']}")
    cluster.transport.objects[path] = obj


def web(**status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "ci-1",
            "generation": 1,
            "annotations": dict(OWNED),
        },
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {**ROLLED_OUT, **status},
    }


def role(**annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "shop", "annotations": annotations},
    }


def job(**status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migration", "namespace": "ci-1"},
        "spec": {},
        "status": status,
    }


FAILED_JOB = job(conditions=[condition("Failed", reason="BackoffLimitExceeded", message="no")])


# Arguments


def test_cluster_namespace_and_limit_are_arguments(
    kwait: Kwait, program: FakeHelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables of the environment select neither another cluster nor another namespace.

    Each command has a cache of its own, which is removed.
    """
    program.does(
        'echo "$HELM_NAMESPACE$HELM_KUBECONTEXT$KUBECONFIG" > variables; touch $KUBECACHEDIR/kinds;'
        "echo $KUBECACHEDIR >> caches"
    )
    program.has(record())
    for variable in ("HELM_NAMESPACE", "HELM_KUBECONTEXT", "KUBECONFIG"):
        monkeypatch.setenv(variable, "other")

    kwait.helm_install("shop", "chart", "--set", "a=b", version="1.2", timeout="1m")

    install, *_ = program.calls()
    where = ["--namespace", "ci-1", "--kubeconfig", "/run/config", "--kube-context", "ours"]
    chart = str(tmp_path / "chart")
    own = ["--output", "json", "--skip-crds", "--timeout", "65s"]
    assert install == [
        *("install", "shop", chart, "--version", "1.2", "--set", "a=b"),
        *own,
        *where,
    ]
    assert (tmp_path / "variables").read_text() == "\n"
    kwait.helm_rollback("shop")
    first, second = (tmp_path / "caches").read_text().splitlines()
    assert first != second
    assert not Path(first).exists()


@pytest.mark.parametrize(
    ("chart", "repo", "expected"),
    [
        ("oci://example.com/shop", None, ["oci://example.com/shop"]),
        ("https://example.com/shop.tgz", None, ["https://example.com/shop.tgz"]),
        ("alias/shop", None, ["alias/shop"]),
        ("shop", "https://example.com", ["shop", "--repo", "https://example.com"]),
    ],
)
def test_charts_that_helm_fetches(
    kwait: Kwait, program: FakeHelm, chart: str, repo: str | None, expected: list[str]
) -> None:
    """Their definitions are read first: only helm can tell whether there are any."""
    program.has(record())

    kwait.helm_install("shop", chart, repo=repo)

    show, install, *_ = program.calls()
    assert show[: 2 + len(expected)] == ["show", "crds", *expected]
    assert install[: 2 + len(expected)] == ["install", "shop", *expected]


def test_definitions_of_several_files(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster
) -> None:
    """Helm 3 writes nothing between them."""
    first = "# One.\n\nkind: ConfigMap\napiVersion: v1\nmetadata:\n  name: a\n"
    second = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata:\n  kind: c\n"
    pulled = "Pulled: example.com/shop:0.1.0\nDigest: sha256:0\n"
    program.has(record())
    program.does(crds=f"{pulled}{first}\n{second}---\n{second.replace('b', 'c')}")

    kwait.helm_install("shop", "alias/shop")

    names = [path.rsplit("/", 1)[1] for path in cluster.transport.objects if "configmaps" in path]
    assert sorted(names) == ["a", "b", "c"]


def test_definitions_are_fetched_as_the_chart_is(kwait: Kwait, program: FakeHelm) -> None:
    program.has(record())
    fetched = ["--plain-http", "--username=jane", "--password", "x", "--ca-file"]

    kwait.helm_install("shop", "oci://example.com/shop", "--set", "a=b", *fetched, wait=False)

    show, *_ = program.calls()
    assert show[: 3 + len(fetched)] == ["show", "crds", "oci://example.com/shop", *fetched]


def test_values_are_files_in_their_order(kwait: Kwait, program: FakeHelm, tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_text("replicas: 3\n")
    cat_values = '[ "$1" = --values ] && cat "$2" >&2'
    program.does(f"while [ $# -gt 0 ]; do {cat_values}; shift; done; exit 1")

    with pytest.raises(HelmError) as caught:
        kwait.helm_template("shop", "chart", values=["large.yaml", {"a": [1]}, "b: 2", "# none\n"])

    assert caught.value.result.stderr.split() == ["replicas:", "3", '{"a":', '[1]}{"b":', "2}{}"]
    chart, large = tmp_path / "chart", tmp_path / "large.yaml"
    assert caught.value.result.command == (
        f"helm template shop {chart} --values {large} --values '{{a}}' --values '{{b}}' "
        "--values '{}' --namespace ci-1"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (3, "values=3 is not valid: use a path, YAML text, a dict, or a list of these"),
        ([3.5], "values=3.5 is not valid: use a path, YAML text, a dict, or a list of these"),
        ("none.yaml", "none.yaml: there is no file {folder}/none.yaml"),
        ("- a\n", "the text, document 1, line 1: {not_a_mapping}"),
        ("list.yaml", "list.yaml, document 1, line 1: {not_a_mapping}"),
        ("a: 1\n---\nb: 2", "the text, document 2, line 3: {not_a_mapping}"),
        ({"a": object}, "the object: holds what JSON cannot: a type (<class 'object'>)"),
    ],
)  # fmt: skip
def test_invalid_values(
    kwait: Kwait, program: FakeHelm, tmp_path: Path, values: Any, message: str
) -> None:
    (tmp_path / "list.yaml").write_text("[a]\n")

    with pytest.raises(KwaitError) as caught:
        kwait.helm_install("shop", "chart", values=values)

    not_a_mapping = "is not one YAML mapping, as values of a chart are"
    assert str(caught.value) == message.format(folder=tmp_path, not_a_mapping=not_a_mapping)
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chart": 3}, "chart=3 is not valid: use a folder, an archive, 'oci://…', a URL, or "
            "'repository/name'"),
        ({"chart": "./none"}, "./none: there is no file {folder}/none"),
        ({"chart": "shop-1.tgz"}, "shop-1.tgz: there is no file {folder}/shop-1.tgz"),
        ({"name": "No"}, "name='No' is not valid: use a DNS name: up to 253 lower-case letters, "
            "digits, '-' and '.', with a letter or digit at both ends of each part"),
    ],
)  # fmt: skip
def test_invalid_arguments(
    kwait: Kwait, program: FakeHelm, tmp_path: Path, arguments: Any, message: str
) -> None:
    with pytest.raises((InvalidArgument, InvalidManifest)) as caught:
        kwait.helm_install(**{"name": "shop", "chart": "chart", **arguments})
    assert str(caught.value) == message.format(folder=tmp_path)


def test_further_arguments_are_texts(kwait: Kwait, program: FakeHelm) -> None:
    number: Any = 1
    with pytest.raises(InvalidArgument) as caught:
        kwait.helm_upgrade("shop", "chart", number)
    assert str(caught.value) == (
        "args=(1,) is not valid: use texts, for example '--set', 'replicas=2'"
    )
    with pytest.raises(InvalidArgument, match="revision=-1 is not valid"):
        kwait.helm_rollback("shop", -1)


# Releases


def test_a_release_with_its_objects(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster, tmp_path: Path
) -> None:
    """What helm prints is read, and asked for where it has printed something else."""
    has(cluster, WEB_PATH, web())
    recorded = record(WEB, hook("Succeeded"), hook("", "ConfigMap"), notes="Thanks.\n")
    printed = {**recorded, "chart": {"metadata": {"name": "shop", "version": "0.1.0"}}}
    (tmp_path / "printed.json").write_text(json.dumps(printed))
    program.has(recorded)
    program.does("cat printed.json")

    release = kwait.helm_install("shop", "chart")

    assert release == HelmRelease(
        "shop",
        "ci-1",
        1,
        "deployed",
        "shop-0.1.0",
        "",
        "Thanks.\n",
        (
            HelmHook("migration", "Job", ("pre-install",), "Succeeded"),
            HelmHook("migration", "ConfigMap", ("pre-install",), ""),
        ),
        [web() | {"metadata": web()["metadata"] | {"uid": "uid-web"}}],
    )
    assert (
        repr(release)
        == "<HelmRelease release shop in ci-1: revision 1, deployed, chart shop-0.1.0>"
    )
    assert str(release.hooks[1]) == "hook pre-install configmap/migration: has not run"
    assert [call[0] for call in program.calls()] == ["install"]
    upgraded = kwait.helm_upgrade("shop", "chart")
    assert upgraded == release
    program.does("echo Rollback was a success")
    rolled_back = kwait.helm_rollback("shop", 1, "--force")
    assert rolled_back.app_version == "2.5"
    rollback, *_ = program.calls()[2:]
    assert rollback[:4] == ["rollback", "shop", "1", "--force"]


def test_ready_releases_are_named_in_later_failures(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster
) -> None:
    """Until they are changed, or their test is over; a failed change names its own."""
    program.has(record("", hook("Succeeded"), notes="Thanks."))
    described = (
        "release shop in ci-1: revision 1, deployed, chart shop-0.1.0\n"
        "  hook pre-install job/migration: Succeeded\n"
        "  notes: Thanks."
    )

    kwait.helm_install("shop", "chart")
    assert describe_installed(["other", "ci-1"]) == described
    program.does("exit 1")
    with pytest.raises(HelmError):
        kwait.helm_upgrade("shop", "chart")
    assert describe_installed(["ci-1"]) == ""
    program.does()
    kwait.helm_rollback("shop")
    assert describe_installed(["ci-1"]) == described
    kwait.close()
    assert describe_installed(["ci-1"]) == ""


def test_objects_of_helm_are_awaited(kwait: Kwait, program: FakeHelm, cluster: FakeCluster) -> None:
    has(cluster, WEB_PATH, web(updatedReplicas=0))
    program.has(record(WEB, hook("Succeeded"), notes="Thanks.\nCome again."))

    with pytest.raises(WaitTimeout) as caught:
        kwait.helm_install("shop", "chart", timeout=0.3, poll=0.05)

    assert "0 out of 1 new replicas have been updated" in str(caught.value)
    assert caught.value.__notes__ == [
        "release shop in ci-1: revision 1, deployed, chart shop-0.1.0",
        "  hook pre-install job/migration: Succeeded",
        "  notes: Thanks.",
        "  notes: Come again.",
    ]
    assert kwait.helm_install("shop", "chart", wait=False).status == "deployed"


@pytest.mark.parametrize(
    "spec",
    [
        ("apps/v1", "Deployment", "deployments", {"paused": True}),
        ("apps/v1", "StatefulSet", "statefulsets", {"updateStrategy": {"type": "OnDelete"}}),
        ("batch/v1", "Job", "jobs", {"suspend": True}),
    ],
)
def test_what_helm_does_not_await_is_not_awaited(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster, spec: tuple[str, str, str, Any]
) -> None:
    version, kind, plural, fields = spec
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": fields}
    has(cluster, f"/apis/{version}/namespaces/ci-1/{plural}/a", obj)
    program.has(record(json.dumps(obj)))

    assert [each["kind"] for each in kwait.helm_install("shop", "chart").objects] == [kind]


def test_definitions_are_applied_before(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster, tmp_path: Path
) -> None:
    """The test owns them; `--skip-crds` leaves them out."""
    made = definition(versions=[served_version()])
    program.has(record())
    program.does(crds=f"---\n{json.dumps(made)}")
    (tmp_path / "chart" / "crds").mkdir()

    kwait.helm_install("shop", "chart", "--skip-crds", wait=False)
    kwait.helm_upgrade("shop", "chart", wait=False)
    commands = [call[0] for call in program.calls()]
    assert commands == ["install", "status", "get", "upgrade", "status", "get"]
    kwait.helm_install("shop", "chart", wait=False)
    kwait.helm_upgrade("shop", "chart", "--install", wait=False)
    assert [call[0] for call in program.calls()].count("show") == 2

    (path,) = [path for path in cluster.transport.objects if "customresourcedefinitions" in path]
    kwait.close()
    assert path not in cluster.transport.objects


def test_what_outlives_the_namespace_is_owned(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster
) -> None:
    has(cluster, ROLE_PATH, role(**OWNED))
    has(cluster, WEB_PATH, web())
    program.has(record(f"{ROLE}---\n{WEB}"))

    kwait.helm_install("shop", "chart")

    labels = cluster.transport.objects[ROLE_PATH]["metadata"]["labels"]
    assert "pytest-kwait/run" in labels
    kwait.close()
    # The namespace takes the Deployment with it.
    assert list(cluster.transport.objects) == [WEB_PATH]


def test_objects_of_others_are_not_owned(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster
) -> None:
    """Helm refuses them, after it has recorded the release."""
    has(cluster, ROLE_PATH, role())
    program.has(record(ROLE, hook("")))
    has(cluster, JOB_PATH, job())
    program.does("echo 'Error: ClusterRole \"shop\" exists' >&2; exit 1")

    with pytest.raises(HelmError):
        kwait.helm_install("shop", "chart")

    kwait.close()
    assert cluster.transport.objects[ROLE_PATH] == role() | {
        "metadata": {"name": "shop", "annotations": {}, "uid": "uid-shop"}
    }


def test_a_given_namespace_keeps_nothing(
    program: FakeHelm, cluster: FakeCluster, tmp_path: Path
) -> None:
    """Objects, hooks and helm's own records are deleted."""
    (tmp_path / "chart").mkdir()
    kwait = make_kwait(cluster, tmp_path, owned=False)
    has(cluster, WEB_PATH, web())
    has(cluster, JOB_PATH, job())
    labels = {"owner": "helm", "name": "shop"}
    name = "sh.helm.release.v1.shop.v1"
    secret = {"metadata": {"name": name, "namespace": "ci-1", "labels": labels}}
    has(cluster, f"{SECRETS_PATH}/{name}", secret)
    program.has(record(WEB, hook("Succeeded")))

    kwait.helm_install("shop", "chart")
    kwait.close()

    assert cluster.transport.objects == {}


def test_uninstall_waits_until_objects_are_gone(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster, tmp_path: Path
) -> None:
    """Objects that helm keeps on purpose stay."""
    has(cluster, ROLE_PATH, role(**{"helm.sh/resource-policy": "keep"}))
    has(cluster, WEB_PATH, web())
    program.has(record(f"{ROLE}---\n{WEB}"))

    with pytest.raises(WaitTimeout) as caught:
        kwait.helm_uninstall("shop", timeout=0.3, poll=0.05)

    assert str(caught.value).startswith("deployment ci-1/web did not go away within ")
    assert caught.value.__notes__ == ["after helm uninstall shop --namespace ci-1"]
    del cluster.transport.objects[WEB_PATH]
    kwait.helm_uninstall("shop")
    kwait.helm_uninstall("shop", wait=False)


def test_rendered_objects(kwait: Kwait, program: FakeHelm, tmp_path: Path) -> None:
    """Version and kinds are the cluster's; of a registry, helm writes what it has pulled before."""
    (tmp_path / "rendered.yaml").write_text(f"Pulled: example.com/shop\n---\n{ROLE}---\n{WEB}")
    program.does("cat rendered.yaml")

    rendered = kwait.helm_template("shop", "chart")

    assert [obj["kind"] for obj in rendered] == ["ClusterRole", "Deployment"]
    (call,) = program.calls()
    assert call[3:6] == ["--kube-version", "v1.36.0", "--api-versions"]
    assert {"v1", "v1/Pod", "apps/v1", "apps/v1/Deployment"} <= set(call[6].split(","))
    program.does("true")
    assert kwait.helm_template("shop", "chart") == []


# Failures


def test_a_machine_without_helm(
    kwait: Kwait, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ClusterError) as caught:
        kwait.helm_install("shop", "chart")

    assert str(caught.value) == (
        f"helm install shop {tmp_path / 'chart'} --namespace ci-1 cannot run: no helm is in PATH; "
        "install it from https://helm.sh/docs/intro/install/"
    )
    assert not hasattr(caught.value, "__notes__")


def test_a_failed_command(kwait: Kwait, program: FakeHelm, cluster: FakeCluster) -> None:
    """It is shown as a shell takes it, without values; then what there is of the release."""
    has(cluster, ROLE_PATH, role(**OWNED))
    program.has(record(f"{ROLE}---\n{WEB}", status="failed"))
    program.does("echo 'Error: INSTALLATION FAILED: no' >&2; exit 1")

    with pytest.raises(HelmError) as caught:
        kwait.helm_install("shop", "alias/shop", "--set", "a.b=c,d=e\\,f", "--password=x")

    command = "helm install shop alias/shop --set 'a.b=***,d=***' '--password=***' --namespace ci-1"
    assert str(caught.value) == (
        f"{command} ended with exit code 1: Error: INSTALLATION FAILED: no"
    )
    assert caught.value.__notes__ == [
        "release shop in ci-1: revision 1, failed, chart shop-0.1.0",
        "  exist: clusterrole/shop",
        "  missing: deployment/web",
    ]
    assert repr(caught.value.result) == (
        f"HelmResult(command={command!r}, exit_code=1, stderr='Error: INSTALLATION FAILED: no\\n')"
    )
    assert "pytest-kwait/run" in cluster.transport.objects[ROLE_PATH]["metadata"]["labels"]


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (["--set=a=b"], "'--set=a=***'"),
        (["--set-json", "a={}"], "--set-json 'a=***'"),
        (["--username", "jane", "--debug"], "--username '***' --debug"),
        (["--description=a=b"], "--description=a=b"),
    ],
)
def test_values_are_left_out_of_messages(
    kwait: Kwait, program: FakeHelm, args: list[str], shown: str
) -> None:
    program.does("exit 2")
    with pytest.raises(HelmError) as caught:
        kwait.helm_template("shop", "alias/shop", *args)
    assert str(caught.value) == (
        f"helm template shop alias/shop {shown} --namespace ci-1 ended with exit code 2: no output"
    )


def test_values_of_secrets_are_left_out_of_notes(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster
) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "database"},
        "stringData": {"password": "correct-horse-battery"},
    }
    program.has(record(json.dumps(secret), notes="Log in with correct-horse-battery."))
    program.does("exit 1")

    with pytest.raises(HelmError) as caught:
        kwait.helm_upgrade("shop", "chart")

    assert "correct-horse-battery" not in "".join(caught.value.__notes__)


def test_an_unknown_release(kwait: Kwait, program: FakeHelm) -> None:
    program.does(
        "echo 'Error: uninstall: Release not loaded: shop: release: not found' >&2; exit 1"
    )

    with pytest.raises(HelmError) as caught:
        kwait.helm_uninstall("shop")

    assert str(caught.value) == (
        "helm uninstall shop --namespace ci-1 ended with exit code 1: "
        "Error: uninstall: Release not loaded: shop: release: not found"
    )
    assert not hasattr(caught.value, "__notes__")
    program.does()
    with pytest.raises(ClusterError) as unknown:
        kwait.helm_install("shop", "chart")
    assert str(unknown.value).startswith("helm has no release shop after helm install shop ")


def test_a_release_that_cannot_be_read(kwait: Kwait, program: FakeHelm) -> None:
    program.does("exit 1")
    text = program.program.read_text().replace("release: not found", "no rights")
    program.program.write_text(text)

    with pytest.raises(HelmError, match="no output") as caught:
        kwait.helm_install("shop", "chart")

    assert caught.value.__notes__ == [
        "the release could not be read: helm status shop --namespace ci-1 ended with exit code 1: "
        "Error: no rights"
    ]


def test_a_failed_hook_is_the_failure(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster
) -> None:
    has(cluster, JOB_PATH, FAILED_JOB)
    program.has(record("", hook("Failed"), status="failed"))
    program.does("echo 'Error: failed pre-install' >&2; exit 1")

    with pytest.raises(WaitFailed, match="BackoffLimitExceeded") as caught:
        kwait.helm_install("shop", "alias/shop")

    assert caught.value.__notes__ == [
        "during helm install shop alias/shop --namespace ci-1",
        "release shop in ci-1: revision 1, failed, chart shop-0.1.0",
        "  hook pre-install job/migration: Failed",
        "  exist: none",
    ]


def test_a_hook_that_is_gone_leaves_the_error_of_helm(kwait: Kwait, program: FakeHelm) -> None:
    """As with helm's policy `hook-failed`."""
    program.has(record("", hook("Failed"), status="failed"))
    program.does("echo 'Error: failed pre-install' >&2; exit 1")

    with pytest.raises(HelmError, match="failed pre-install"):
        kwait.helm_install("shop", "chart")


def test_a_hook_is_watched_beside_helm(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command whose hook has failed is ended, where helm does not end it."""
    monkeypatch.setattr(releases, "_HOOK_DELAY", 0.0)
    monkeypatch.setattr(releases, "_SLICE", 0.01)
    monkeypatch.setattr(releases, "END_DELAY", 0.01)
    has(cluster, JOB_PATH, FAILED_JOB)
    program.has(record("", hook("Running"), status="pending-install"))
    program.does("exec sleep 600")

    with pytest.raises(WaitFailed, match="BackoffLimitExceeded") as caught:
        kwait.helm_install("shop", "alias/shop")

    assert caught.value.__notes__[0] == "during helm install shop alias/shop --namespace ci-1"


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        ("Job", FAILED_JOB["status"], "BackoffLimitExceeded"),
        ("Pod", {"phase": "Failed"}, "Failed"),
        ("Pod", {"phase": "Succeeded"}, ""),
        ("Job", {"conditions": [condition("Complete")]}, ""),
    ],
)
def test_hooks_are_awaited_to_their_end(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster, kind: str, status: Any, message: str
) -> None:
    """One that has succeeded is no failure, though helm may not have recorded it yet."""
    version, path = ("v1", "/api/v1") if kind == "Pod" else ("batch/v1", "/apis/batch/v1")
    hooked = {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "ci-1"}}
    has(cluster, f"{path}/namespaces/ci-1/{kind.lower()}s/a", {**hooked, "status": status})
    program.has(record("", {**hook("Running", kind), "manifest": json.dumps(hooked)}))
    program.does("echo 'Error: helm itself' >&2; exit 1")

    with pytest.raises((WaitFailed, HelmError), match=message or "helm itself"):
        kwait.helm_install("shop", "chart")


def test_a_hook_that_helm_has_deleted_is_no_failure(
    kwait: Kwait, program: FakeHelm, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with helm's policy `hook-succeeded`, between two looks."""
    has(cluster, JOB_PATH, job())
    program.has(record("", hook("Running")))
    program.does("echo 'Error: helm itself' >&2; exit 1")

    def delete(wait: str, *args: Any, **options: Any) -> None:
        del cluster.transport.objects[JOB_PATH]
        raise WaitFailed("the job was deleted")

    monkeypatch.setattr(kwait._helm, "_wait", delete)

    with pytest.raises(HelmError, match="helm itself"):
        kwait.helm_install("shop", "chart")


def test_a_command_that_does_not_end_is_ended(kwait: Kwait, program: FakeHelm) -> None:
    program.does("exec sleep 600")

    with pytest.raises(WaitTimeout) as caught:
        kwait.helm_upgrade("shop", "alias/shop", timeout=0.3)

    assert str(caught.value) == (
        "helm upgrade shop alias/shop --namespace ci-1 did not end within 300ms"
    )
    with pytest.raises(WaitTimeout) as caught:
        kwait.helm_template("shop", "alias/shop", timeout=0.3)
    assert str(caught.value) == (
        "helm template shop alias/shop --namespace ci-1 did not end within 300ms"
    )


def test_a_stopped_command_ends(kwait: Kwait, program: FakeHelm) -> None:
    program.does("exec sleep 600")
    stop = threading.Event()
    stop.set()

    with pytest.raises(Canceled) as caught:
        kwait.helm_upgrade("shop", "alias/shop", stop=stop)

    assert str(caught.value) == "helm upgrade shop alias/shop --namespace ci-1 was stopped"


def test_a_cancelled_task_ends_the_command(
    kwait: Kwait, program: FakeHelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "_SLICE", 0.01)
    program.does("exec sleep 600")

    async def cancelled() -> None:
        task = asyncio.ensure_future(kwait.aio.helm_install("shop", "chart"))
        await async_sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


def test_results_are_shown_without_their_output() -> None:
    result = HelmResult("helm status shop", 0, "{…}", "")
    assert repr(result) == "HelmResult(command='helm status shop', exit_code=0, stderr='')"

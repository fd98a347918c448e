"""A chart in the namespace of a test: installed, upgraded, rolled back, uninstalled, rendered."""

from __future__ import annotations

import asyncio
import hashlib
import http.server
import json
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import TYPO
from pytest_kwait import HelmError, WaitFailed, WaitTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_kwait import Kwait

pytestmark = pytest.mark.usefixtures("helm")

BAD_IMAGE = TYPO["image"]


def replicas(kwait: Kwait) -> int:
    found: int = kwait.get("deployment/shop-web")["spec"]["replicas"]
    return found


def role(kwait: Kwait) -> str:
    return f"clusterrole/{kwait.namespace}-shop"


def test_installed_release_is_ready(kwait: Kwait) -> None:
    """Each object is awaited by the wait of its kind; the hook has been run by helm."""
    release = kwait.helm_install("shop", "shop", values={"replicas": 2})

    assert str(release) == (
        f"release shop in {kwait.namespace}: revision 1, deployed, chart shop-0.1.0"
    )
    assert release.notes.strip() == "The shop shop has 2 replicas."
    assert [str(hook) for hook in release.hooks] == [
        "hook pre-install,pre-upgrade job/shop-migration: Succeeded"
    ]
    web = release.objects[-1]
    assert (web["kind"], web["status"]["readyReplicas"]) == ("Deployment", 2)
    assert kwait.get(role(kwait))["rules"]


def test_values_of_files_texts_and_dicts(kwait: Kwait, tmp_path: Path) -> None:
    """Later ones win, as for helm's `--values`."""
    file = tmp_path / "large.yaml"
    file.write_text("replicas: 3\nimage: busybox:1.37\n")

    rendered = kwait.helm_template("shop", "shop", values=[file, {"replicas": 4}, "password: a b"])

    (web,) = [obj for obj in rendered if obj["kind"] == "Deployment"]
    assert web["spec"]["replicas"] == 4
    assert web["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox:1.37"
    (secret,) = [obj for obj in rendered if obj["kind"] == "Secret"]
    assert secret["stringData"] == {"password": "a b"}
    assert not kwait.list("deployments")


def test_upgrade_rollback_and_uninstall(kwait: Kwait) -> None:
    kwait.helm_install("shop", "shop")
    upgraded = kwait.helm_upgrade("shop", "shop", "--set", "replicas=2")
    assert (upgraded.revision, replicas(kwait)) == (2, 2)
    rolled_back = kwait.helm_rollback("shop", 1)
    assert (rolled_back.revision, replicas(kwait)) == (3, 1)
    assert rolled_back.chart == "shop-0.1.0"

    kwait.helm_uninstall("shop")

    assert not kwait.list("deployments")
    with pytest.raises(HelmError, match="release: not found"):
        kwait.helm_uninstall("shop")


def test_images_that_cannot_be_pulled_end_the_wait(kwait: Kwait) -> None:
    """The message has the release, its hooks and its notes; values stay out of it."""
    values = {"image": BAD_IMAGE, "hook": False, "password": "correct-horse"}

    with pytest.raises(WaitFailed) as failed:
        kwait.helm_install("shop", "shop", values=values)

    assert "InvalidImageName" in str(failed.value)
    notes = failed.value.__notes__
    assert notes == [
        f"release shop in {kwait.namespace}: revision 1, deployed, chart shop-0.1.0",
        "  notes: The shop shop has 1 replicas.",
    ]
    assert kwait.get("secret/shop-database")["data"]


def test_failed_hook_is_shown_with_its_log(kwait: Kwait) -> None:
    with pytest.raises(WaitFailed) as failed:
        kwait.helm_install("shop", "shop", values={"migration": "echo no such table; exit 3"})

    assert "BackoffLimitExceeded" in str(failed.value)
    assert "no such table" in str(failed.value)
    assert "  hook pre-install,pre-upgrade job/shop-migration: Failed" in failed.value.__notes__


def test_hook_that_cannot_start_ends_the_command(kwait: Kwait) -> None:
    """Helm would wait for its whole limit."""
    with pytest.raises(WaitFailed, match="InvalidImageName"):
        kwait.helm_install("shop", "shop", values={"image": BAD_IMAGE})

    record = kwait.get("secret/sh.helm.release.v1.shop.v1")
    assert record["metadata"]["labels"]["status"] in ("failed", "pending-install")


def test_limit_is_that_of_the_whole_call(kwait: Kwait) -> None:
    # Long enough for the hook to begin, on a busy machine too.
    limit = "6s" if kwait.cluster.provider == "embedded" else "20s"
    with pytest.raises(WaitTimeout) as failed:
        kwait.helm_install("shop", "shop", values={"migration": "sleep 300"}, timeout=limit)

    assert "job" in str(failed.value)
    assert failed.value.__notes__[0].startswith("during helm install shop ")


@pytest.fixture
def gone(kwait_factory: Any) -> Callable[[Callable[[Kwait], object]], Kwait]:
    """Return a function that uses a namespace of its own, and returns its closed `Kwait`."""

    def use(install: Callable[[Kwait], object]) -> Kwait:
        with kwait_factory("charts") as other:
            install(other)
        used: Kwait = other
        return used

    return use


def test_objects_outside_of_the_namespace_go_with_the_test(
    kwait: Kwait, gone: Callable[[Callable[[Kwait], object]], Kwait]
) -> None:
    def install(other: Kwait) -> None:
        other.helm_install("shop", "shop", wait=False)
        labels = kwait.get(role(other))["metadata"]["labels"]
        assert {"pytest-kwait/run", "app.kubernetes.io/managed-by"} <= labels.keys()

    kwait.wait_for(role(gone(install)), "delete")


def test_failed_installation_leaves_nothing(
    kwait: Kwait, gone: Callable[[Callable[[Kwait], object]], Kwait]
) -> None:
    """The server refuses the Deployment, after helm has created the role."""

    def install(other: Kwait) -> None:
        with pytest.raises(HelmError) as failed:
            other.helm_install("shop", "shop", values={"replicas": -1})
        assert "spec.replicas" in str(failed.value)
        assert kwait.get(role(other))

    kwait.wait_for(role(gone(install)), "delete")


def test_definitions_are_established_before_the_chart(kwait: Kwait, tmp_path: Path) -> None:
    """Those in `crds/` belong to the test; helm would leave them."""
    group = f"{kwait.namespace}.example.com"
    chart = tmp_path / "bakery"
    (chart / "crds").mkdir(parents=True)
    (chart / "templates").mkdir()
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: bakery\nversion: 1.0.0\n")
    (chart / "crds" / "ovens.yaml").write_text(
        f"""apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: ovens.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{kind: Oven, plural: ovens, singular: oven, listKind: OvenList}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"""
    )
    (chart / "templates" / "oven.yaml").write_text(
        f"apiVersion: {group}/v1\nkind: Oven\nmetadata: {{name: hot}}\nspec: {{degrees: 220}}\n"
    )

    release = kwait.helm_install("bakery", chart)

    assert [obj["spec"] for obj in release.objects] == [{"degrees": 220}]
    definition = kwait.get(f"crd/ovens.{group}")
    assert "pytest-kwait/run" in definition["metadata"]["labels"]
    rendered = kwait.helm_template("bakery", chart, "--include-crds")
    assert [obj["kind"] for obj in rendered] == ["CustomResourceDefinition", "Oven"]


class Server(http.server.ThreadingHTTPServer):
    """Serves contents by path, on a port of this machine."""

    def __init__(self, contents: dict[str, tuple[str, bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents = contents
        self.address = f"127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers from the contents of the server."""

    def do_GET(self) -> None:
        """Answer a request, of HEAD without the content."""
        assert isinstance(self.server, Server)
        kind, content = self.server.contents.get(self.path, ("", b""))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815 - http.server calls it

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@pytest.fixture
def packaged(
    helm: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The archive of the chart; what helm fetches is cached beside it."""
    for variable in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "helm"))
    chart = request.path.parent / "shop"
    subprocess.run([helm, "package", chart, "--destination", tmp_path], check=True)
    return tmp_path / "shop-0.1.0.tgz"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server({})
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_archives(kwait: Kwait, packaged: Path) -> None:
    release = kwait.helm_install("shop", packaged, wait=False)

    assert release.app_version == "2.5"


def test_charts_of_a_repository(kwait: Kwait, packaged: Path, helm: Path, server: Server) -> None:
    subprocess.run([helm, "repo", "index", packaged.parent], check=True)
    index = (packaged.parent / "index.yaml").read_bytes()
    server.contents["/index.yaml"] = ("text/yaml", index)
    server.contents[f"/{packaged.name}"] = ("application/gzip", packaged.read_bytes())

    repo = f"http://{server.address}"
    release = kwait.helm_install("shop", "shop", repo=repo, version="0.1.0", wait=False)

    assert release.chart == "shop-0.1.0"


def test_charts_of_a_registry(kwait: Kwait, packaged: Path, server: Server) -> None:
    def put(kind: str, content: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        server.contents[f"/v2/charts/shop/blobs/{digest}"] = ("application/octet-stream", content)
        return {"mediaType": kind, "digest": digest, "size": len(content)}

    layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": put("application/vnd.cncf.helm.config.v1+json", b'{"name": "shop"}'),
        "layers": [put(layer, packaged.read_bytes())],
    }
    content = json.dumps(manifest).encode()
    digest = put(kind, content)["digest"]
    for reference in ("0.1.0", digest):
        server.contents[f"/v2/charts/shop/manifests/{reference}"] = (kind, content)

    chart = f"oci://{server.address}/charts/shop"
    rendered = kwait.helm_template("shop", chart, "--plain-http", version="0.1.0")
    assert len(rendered) == 5
    release = kwait.helm_install("shop", chart, "--plain-http", version="0.1.0", wait=False)

    assert release.chart == "shop-0.1.0"


async def _install(kwait: Kwait) -> str:
    release = await kwait.aio.helm_install("shop", "shop")
    await kwait.aio.helm_uninstall("shop")
    return release.status


def test_async_tests(kwait: Kwait) -> None:
    assert asyncio.run(_install(kwait)) == "deployed"

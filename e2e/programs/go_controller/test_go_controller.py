"""A controller of controller-runtime: leader election, webhooks, conversion, children."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
import yaml

from e2e.conftest import PROGRAMS
from e2e.programs.go_controller.build import NOT_BUILT, find_program
from e2e.programs.operators import fill_in, make_certificate
from e2e.raising import times_out
from pytest_kwait import ApiError, wait

if TYPE_CHECKING:
    from pytest_kwait import Kwait


pytestmark = [
    pytest.mark.needs(PROGRAMS),
    pytest.mark.kwait_skip_unless_programs_isolated,
    pytest.mark.skipif(not find_program().exists(), reason=NOT_BUILT),
]

MANIFESTS = Path(__file__).with_name("controller.yaml")


def site(kwait: Kwait, name: str = "home", **spec: Any) -> dict[str, Any]:
    """Return a site."""
    return {
        "apiVersion": f"{kwait.namespace}.example.com/v1",
        "kind": "Site",
        "metadata": {"name": name},
        "spec": {"text": "welcome", "replicas": 1, **spec},
    }


def read_manifests(kwait: Kwait) -> list[dict[str, Any]]:
    """Return the controller's manifests, with the certificate of its webhooks."""
    secret, authority = make_certificate(kwait, "sites")
    return [secret, *yaml.safe_load_all(fill_in(MANIFESTS, kwait, CA=authority))]


@pytest.fixture
def sites(kwait: Kwait) -> str:
    """The controller, ready, with its webhook; returns what its kind is called."""
    kwait.apply(*read_manifests(kwait))
    kwait.wait_for_deployment_complete("sites")
    kwait.wait_for_webhook_ready(
        f"validatingwebhookconfiguration/{kwait.namespace}.example.com",
        site(kwait, "probe", text=""),
        denial="a site without a text has no visitors",
    )
    return f"sites.{kwait.namespace}.example.com"


def test_it_reconciles(kwait: Kwait, sites: str) -> None:
    """The Deployment follows its Site, the status follows the Deployment."""
    kwait.create(site(kwait))
    kwait.wait_for(f"{sites}/home", "jsonpath={.status.readyReplicas}=1")
    with urlopen(kwait.url("deployment/home", 8080), timeout=30) as answer:
        assert answer.read() == b"welcome\n"
    kwait.apply(site(kwait, text="bye", replicas=2))
    kwait.wait_for(f"{sites}/home", "jsonpath={.status.observedGeneration}=2")
    kwait.wait_for_deployment_complete("home")
    kwait.wait_for(f"{sites}/home", "jsonpath={.status.readyReplicas}=2")
    # Back to what the Site says, whoever changes it.
    kwait.scale("deployment/home", 2)
    kwait.delete("deployment/home")
    kwait.wait_for_deployment_complete("home")
    kwait.delete(f"{sites}/home")
    kwait.wait_for("deployment/home", "delete")


def test_its_webhook_refuses(kwait: Kwait, sites: str) -> None:
    """On creation and on change, with the controller's words."""
    del sites
    with pytest.raises(ApiError, match="a site without a text has no visitors") as caught:
        kwait.create(site(kwait, text=""))
    assert caught.value.status == 403
    kwait.create(site(kwait))
    with pytest.raises(ApiError, match=r'admission webhook "sites\.example\.com" denied'):
        kwait.apply(site(kwait, text=""))


def test_it_converts_between_versions(kwait: Kwait, sites: str) -> None:
    """Both versions are one object; the API server asks the controller."""
    group = f"{kwait.namespace}.example.com"
    old = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "Site",
        "metadata": {"name": "old"},
        "message": "from before",
        "replicas": 1,
    }
    kwait.create(old)
    found = kwait.wait_for(f"{sites}/old", "jsonpath={.status.readyReplicas}=1")
    assert found["spec"] == {"text": "from before", "replicas": 1}
    read = kwait.get(f"sites.v1alpha1.{group}/old")
    assert (read["message"], read["status"]["readyReplicas"]) == ("from before", 1)


def test_another_replica_takes_over(kwait: Kwait, sites: str) -> None:
    """The leader holds a lease; once it is deleted, the other one leads and reconciles."""
    lease = kwait.wait_for("lease/sites", "jsonpath={.spec.holderIdentity}")
    leader = lease["spec"]["holderIdentity"].partition("_")[0]
    kwait.delete(f"pod/{leader}")
    kwait.wait_for(
        "lease/sites",
        lambda found: (
            not found["spec"]["holderIdentity"].startswith((f"{leader}_", " "))
            and found["spec"]["holderIdentity"] != ""
        ),
    )
    kwait.create(site(kwait))
    kwait.wait_for(f"{sites}/home", "jsonpath={.status.readyReplicas}=1")


def test_a_missing_right_is_in_its_log(kwait: Kwait) -> None:
    """The child is missing; the controller's log says what it may not do."""
    manifests = read_manifests(kwait)
    (role,) = (one for one in manifests if one["kind"] == "Role")
    for rule in role["rules"]:
        if rule["resources"] == ["deployments"]:
            rule["verbs"].remove("create")
    kwait.apply(*manifests)
    kwait.wait_for_deployment_complete("sites")
    kwait.create(site(kwait))

    def is_logged() -> bool:
        pods = kwait.list("pods", selector="app=sites")
        logs = "".join(kwait.logs(pod["metadata"]["name"]) for pod in pods)
        return 'cannot create resource \\"deployments\\"' in logs

    wait.poll_immediate("200ms", "1m", is_logged)
    times_out("created within LIMIT: not found yet", kwait.wait_for, "deployment/home", "create")

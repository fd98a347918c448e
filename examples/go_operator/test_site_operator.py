"""An operator of controller-runtime: leader election, webhooks, conversion, children."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from pytest_kwait import ApiError, WaitTimeout

if TYPE_CHECKING:
    from pytest_kwait import Kwait

# Elsewhere its replicas would share one network, and the files of the machine.
pytestmark = [
    pytest.mark.kwait_skip_unless_programs_isolated,
    pytest.mark.skipif(shutil.which("go") is None, reason="the operator is built with Go"),
]


def site(kwait: Kwait, name: str = "home", **spec: Any) -> dict[str, Any]:
    """Return a Site."""
    return {
        "apiVersion": f"{kwait.namespace}.example.com/v1",
        "kind": "Site",
        "metadata": {"name": name},
        "spec": {"text": "welcome", "replicas": 1, **spec},
    }


@pytest.fixture
def sites(operator: Kwait) -> str:
    """Return the name of the operator's kind, once its webhooks are called."""
    kwait = operator
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
    """On creation and on change, with the operator's words."""
    del sites
    with pytest.raises(ApiError, match="a site without a text has no visitors") as caught:
        kwait.create(site(kwait, text=""))
    assert caught.value.status == 403
    kwait.create(site(kwait))
    with pytest.raises(ApiError, match=r'admission webhook "sites\.example\.com" denied'):
        kwait.apply(site(kwait, text=""))


def test_it_converts_between_versions(kwait: Kwait, sites: str) -> None:
    """Both versions are one object; the API server asks the operator."""
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


def test_a_missing_right_is_in_its_log(kwait: Kwait, sites: str) -> None:
    """The child is missing; the operator's log says what it may not do."""
    del sites
    rules = kwait.get("role/sites")["rules"]
    (of_deployments,) = (rule for rule in rules if rule["resources"] == ["deployments"])
    of_deployments["verbs"].remove("create")
    kwait.patch("role/sites", {"rules": rules})
    kwait.create(site(kwait))

    kwait.wait_for_log("deployment/sites", r"cannot create resource \"deployments\"")
    with pytest.raises(WaitTimeout, match="not found yet"):
        kwait.wait_for("deployment/home", "create", timeout="500ms")

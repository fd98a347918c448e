"""A kopf operator, deployed as its users deploy it: rights, webhook, finalizers, peers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from e2e.conftest import PROGRAMS
from e2e.programs.operators import fill_in, make_certificate
from e2e.raising import raises
from pytest_kwait import ApiError, WaitFailed, WaitTimeout

pytest.importorskip("kopf", reason="kopf is not installed")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait


pytestmark = [pytest.mark.needs(PROGRAMS), pytest.mark.kwait_skip_unless_programs_isolated]

FOLDER = Path(__file__).parent


def greeting(kwait: Kwait, name: str = "hello", **spec: Any) -> dict[str, Any]:
    """Return a greeting."""
    return {
        "apiVersion": f"{kwait.namespace}.example.com/v1",
        "kind": "Greeting",
        "metadata": {"name": name},
        "spec": {"text": "hello", **spec},
    }


def read_manifests(kwait: Kwait) -> list[dict[str, Any]]:
    """Return the operator's manifests, with the webhook's certificate."""
    secret, _ = make_certificate(kwait, "greeter")
    return [secret, *yaml.safe_load_all(fill_in(FOLDER / "operator.yaml", kwait))]


def pick(manifests: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the manifest of a kind."""
    (found,) = (one for one in manifests if one["kind"] == kind)
    return found


@pytest.fixture
def operator(kwait: Kwait) -> Iterator[str]:
    """The operator, ready; gives what its kind is called."""
    kwait.apply(*read_manifests(kwait))
    kwait.wait_for_deployment_complete("greeter")
    kind = f"greetings.{kwait.namespace}.example.com"
    yield kind
    # The operator goes before what it holds if their namespace is deleted.
    for left in kwait.list(kind):
        kwait.delete_and_wait(left, timeout="1m")


def test_it_reconciles(kwait: Kwait, operator: str) -> None:
    """Child, status and finalizer follow the object, from its creation to its end."""
    kwait.create(greeting(kwait, copies=2))
    made = kwait.wait_for(f"{operator}/hello", "jsonpath={.status.text}=hello hello")
    assert made["metadata"]["finalizers"] == [f"{kwait.namespace}.example.com/farewell"]
    written = kwait.get("configmap/hello")
    assert written["data"]["text"] == "hello hello"
    assert written["metadata"]["ownerReferences"][0]["kind"] == "Greeting"
    kwait.apply(greeting(kwait, text="bye"))
    kwait.wait_for("configmap/hello", "jsonpath={.data.text}=bye bye")
    kwait.delete(f"{operator}/hello")
    kwait.wait_for("configmap/farewell-hello", "create")
    kwait.wait_for(f"{operator}/hello", "delete")
    kwait.wait_for("configmap/hello", "delete")


def test_its_webhook_refuses_and_warns(kwait: Kwait, operator: str) -> None:
    """The API server calls it through its service, by the configuration that it writes."""
    del operator
    kwait.wait_for_webhook_ready(
        f"validatingwebhookconfiguration/{kwait.namespace}.example.com",
        greeting(kwait, "probe", copies=101),
        denial="101 copies are too many",
    )
    with pytest.raises(ApiError, match="102 copies are too many: at most 100") as caught:
        kwait.create(greeting(kwait, copies=102))
    assert caught.value.status == 422
    kwait.create(greeting(kwait, copies=3))


def test_a_restarted_operator_goes_on(kwait: Kwait, operator: str) -> None:
    """What changed while it was away is handled once it is back."""
    kwait.create(greeting(kwait))
    kwait.wait_for(f"{operator}/hello", "jsonpath={.status.text}=hello")
    kwait.scale("deployment/greeter", 0)
    # It has taken its webhook away.
    kwait.apply(greeting(kwait, text="again"))
    kwait.delete("configmap/hello")
    kwait.scale("deployment/greeter", 1)
    kwait.wait_for("configmap/hello", "jsonpath={.data.text}=again")


def test_a_missing_right_is_in_the_message(kwait: Kwait) -> None:
    """A child that may not be created leaves its owner's status as it was; the message says why."""
    manifests = read_manifests(kwait)
    role = pick(manifests, "Role")
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["configmaps"]]
    kwait.apply(*manifests)
    kwait.wait_for_deployment_complete("greeter")
    kwait.create(greeting(kwait))
    target = f"greetings.{kwait.namespace}.example.com/hello"
    kwait.wait_for(
        "deployment/greeter",
        lambda _: 'cannot patch resource \\"configmaps' in kwait.logs("deployment/greeter"),
        mode="poll",
        poll="200ms",
    )
    with raises(
        WaitTimeout,
        "status.text} is not there yet.* refused by the API server, as logs of the namespace's "
        r'pods say greeter-\S+/operator: configmaps "hello" is forbidden: User .*:greeter" '
        'cannot patch resource "configmaps"',
    ):
        kwait.wait_for(target, "jsonpath={.status.text}", timeout="2s")
    kwait.scale("deployment/greeter", 0)
    kwait.patch(target, {"metadata": {"finalizers": None}})


def test_an_operator_that_crashes_explains_itself(kwait: Kwait) -> None:
    """The wait for its Deployment ends early, with the end of its log."""
    manifests = read_manifests(kwait)
    deployment = pick(manifests, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["env"] = container["env"][1:]
    kwait.apply(*manifests)
    with raises(WaitFailed, "(?s)container operator .*exit code 1.*KeyError: 'GREETINGS_GROUP'"):
        kwait.wait_for_deployment_complete("greeter")


def test_peers_take_over_from_each_other(kwait: Kwait) -> None:
    """The one with the highest priority works; once it is gone, the next one does."""
    manifests = read_manifests(kwait)
    first = pick(manifests, "Deployment")
    template = first["spec"]["template"]
    (container,) = template["spec"]["containers"]
    container["args"] += ["--peering=greeters", "--priority=1"]
    container["args"].remove("--standalone")
    kwait.apply(FOLDER / "peering.yaml", *manifests)
    kwait.wait_for_deployment_complete("greeter")
    kind = f"greetings.{kwait.namespace}.example.com"
    kwait.create(greeting(kwait, "one"))
    kwait.wait_for(f"{kind}/one", "jsonpath={.status.text}=hello")

    container["args"][-1] = "--priority=2"
    first["metadata"]["name"] = "second"
    first["spec"]["selector"]["matchLabels"]["version"] = "second"
    template["metadata"]["labels"]["version"] = "second"
    kwait.apply(first)
    kwait.wait_for_deployment_complete("second")
    kwait.wait_for(
        "kopfpeering/greeters", lambda found: len(found.get("status") or {}) == 2, timeout="1m"
    )
    kwait.create(greeting(kwait, "two"))
    kwait.wait_for(f"{kind}/two", "jsonpath={.status.text}=hello")
    kwait.scale("deployment/second", 0)
    kwait.create(greeting(kwait, "three"))
    kwait.wait_for(f"{kind}/three", "jsonpath={.status.text}=hello")
    makers = [
        kwait.get(f"configmap/{name}")["data"]["operator"] for name in ("one", "two", "three")
    ]
    assert [name.rpartition("-")[0].rpartition("-")[0] for name in makers] == [
        "greeter", "second", "greeter",
    ]  # fmt: skip
